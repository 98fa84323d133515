"""Helpers of the scheduler's tests: data by name, and the only command of a kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from beam_runner_model.facts import DataStatistics
from beam_runner_model.windows import GLOBAL_WINDOW, Window

from beam_runner_engine.scheduler.data import Data

Kind = TypeVar("Kind")


def data(
    ref: Any,
    time: int = 0,
    shard: int | None = None,
    windows: Iterable[Window] | None = (GLOBAL_WINDOW,),
    size: int = 10,
) -> Data:
    """Returns data with one element."""
    known = None if windows is None else frozenset(windows)
    return Data(ref, DataStatistics(1, size, time, shard, known))


def only(commands: Iterable[object], kind: type[Kind]) -> Kind:
    """Returns the command of a kind; fails unless there is exactly one such command."""
    (found,) = [command for command in commands if isinstance(command, kind)]
    return found


def refs(bundle: Any) -> list[Any]:
    """Returns the references of a bundle's inputs."""
    return [one.data.ref for one in bundle.inputs]
