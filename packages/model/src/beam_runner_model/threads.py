"""Threads whose end can't leave a job standing: each thread of the worker and of the server starts here.

| thread | used for | if its work raises |
|---|---|---|
| `start_essential` | work that others wait for | ``on_break`` runs; by default the process exits |
| `start_helper` | work that saves time or space only | the error is logged |
| `run_together` | several calls at the same time | the caller gets the error |

User code can replace builtins in a worker process. So the exit of the process depends on no builtin.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

_LOGGER = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")


def start_essential(
    work: Callable[[], None],
    name: str,
    on_break: Callable[[BaseException], None] | None = None,
) -> threading.Thread:
    """Starts a daemon thread that the process depends on.

    Args:
        work: the function that the thread runs. If it returns, nothing else happens.
        name: the name of the thread.
        on_break: called in the thread if ``work`` raises anything. It must make sure that nothing
            waits for the thread any more: by an error for the waiting parts, or by a new thread.
            Without it the process exits with code 1. The process also exits if ``on_break`` raises.
    """
    leave = os._exit

    def run() -> None:
        is_handled = False
        try:
            work()
            is_handled = True
        except BaseException as error:
            _log(name, error)
            if on_break is not None:
                on_break(error)
                is_handled = True
        finally:
            if not is_handled:
                leave(1)

    return _started(run, name)


def start_helper(work: Callable[[], None], name: str) -> threading.Thread:
    """Starts a daemon thread that nothing waits for without a limit; if ``work`` raises, that is logged."""

    def run() -> None:
        try:
            work()
        except BaseException as error:
            _log(name, error)

    return _started(run, name)


def run_together(
    work: Callable[[Item], Result], items: Sequence[Item], at_once: int, name: str
) -> list[Result]:
    """Returns the result of ``work`` for each item, in order; up to ``at_once`` calls run at the same time.

    After an error no further call begins.

    Raises:
        BaseException: the first error of ``work``, by the order of the items.
    """
    if len(items) <= 1 or at_once <= 1:
        return [work(item) for item in items]
    calls = _Calls(work, items)
    threads = [_started(calls.run, name) for _ in range(min(at_once, len(items)))]
    for thread in threads:
        thread.join()
    return calls.results()


class _Calls(Generic[Item, Result]):
    """The calls of one `run_together`, which several threads take one by one."""

    def __init__(self, work: Callable[[Item], Result], items: Sequence[Item]) -> None:
        self._work = work
        self._items = items
        self._lock = threading.Lock()
        self._next = 0
        self._results: dict[int, Result] = {}
        self._errors: dict[int, BaseException] = {}

    def run(self) -> None:
        """Runs calls until none is left."""
        while (number := self._take()) is not None:
            try:
                self._results[number] = self._work(self._items[number])
            except BaseException as error:
                self._errors[number] = error

    def _take(self) -> int | None:
        with self._lock:
            if self._errors or self._next == len(self._items):
                return None
            self._next += 1
            return self._next - 1

    def results(self) -> list[Result]:
        """Returns the results in order.

        Raises:
            BaseException: an error of a call.
            RuntimeError: a thread ended before its call did.
        """
        if self._errors:
            raise self._errors[min(self._errors)]
        if len(self._results) < len(self._items):
            missing = len(self._items) - len(self._results)
            raise RuntimeError(f"{missing} of {len(self._items)} calls have no result")
        return [self._results[number] for number in range(len(self._items))]


def _started(run: Callable[[], None], name: str) -> threading.Thread:
    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def _log(name: str, error: BaseException) -> None:
    try:
        _LOGGER.error("the thread %s has ended by an error", name, exc_info=error)
    except BaseException:  # user code has broken logging, and the caller must go on
        return
