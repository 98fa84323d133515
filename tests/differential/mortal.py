"""Runs calls in processes that may die: what a dead one was at is told, and the others go on."""

from __future__ import annotations

import multiprocessing
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import attrs

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
_CALLS_PER_PROCESS = 25


@attrs.frozen
class At:
    """Where a call says what it is at, for the case that its process dies."""

    _file: Path

    def tell(self, what: str) -> None:
        """From now on it is at this."""
        self._file.write_text(what, encoding="utf-8")

    def told(self) -> str:
        """What it was at last."""
        return self._file.read_text(encoding="utf-8")


@attrs.frozen
class Died:
    """What became of a call: its process ended while it was at something."""

    at: str


class Mortals:
    """A process for each thread that calls, another one after many calls or a death. Thread-safe.

    Args:
        begin: called first in each process.
    """

    def __init__(self, begin: Callable[[], None]) -> None:
        self._begin = begin
        self._folder = tempfile.TemporaryDirectory(prefix="mortals")
        self._of_thread = threading.local()
        self._pools: list[ProcessPoolExecutor] = []

    def __enter__(self) -> Mortals:
        return self

    def __exit__(self, *unused: object) -> None:
        for pool in self._pools:
            pool.shutdown()
        self._folder.cleanup()

    def call(
        self,
        function: Callable[Concatenate[At, _Parameters], _Result],
        *arguments: _Parameters.args,
        **named: _Parameters.kwargs,
    ) -> _Result | Died:
        """Calls it in this thread's process; raises what it raises."""
        at = At(Path(self._folder.name, str(threading.get_ident())))
        at.tell("nothing")
        try:
            return self._pool().submit(function, at, *arguments, **named).result()
        except BrokenProcessPool:
            self._of_thread.calls_left = 0
            return Died(at.told())

    def _pool(self) -> ProcessPoolExecutor:
        mine: Any = self._of_thread
        if getattr(mine, "calls_left", 0) == 0:
            if hasattr(mine, "pool"):
                mine.pool.shutdown()
            spawn = multiprocessing.get_context("spawn")
            mine.pool = ProcessPoolExecutor(1, spawn, self._begin)
            mine.calls_left = _CALLS_PER_PROCESS
            self._pools.append(mine.pool)
        mine.calls_left -= 1
        pool: ProcessPoolExecutor = mine.pool
        return pool
