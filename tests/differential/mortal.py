"""Runs calls in processes that may crash: the current activity of a crashed process is reported, and
other processes continue.
"""

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
    """Current activity of a call, for the report of a crash."""

    _file: Path

    def tell(self, what: str) -> None:
        """Sets the current activity."""
        self._file.write_text(what, encoding="utf-8")

    def told(self) -> str:
        """Returns the last activity."""
        return self._file.read_text(encoding="utf-8")


@attrs.frozen
class Died:
    """Outcome of a call whose process crashed, with its last activity."""

    at: str


class Mortals:
    """Pool with one process for each calling thread; a process is replaced after many calls or a
    crash. Thread-safe.

    Args:
        begin: function that runs first in each process.
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
        """Calls a function in this thread's process; raises its exceptions."""
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
