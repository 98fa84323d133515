"""Functions that start threads. An error in such a thread never leaves a job blocked. All threads of
the worker and the server start here.

| thread | used for | if the work raises an error |
|---|---|---|
| `start_essential_thread` | work that other threads wait for | ``on_break`` runs; by default the process exits |
| `start_helper_thread` | work that only saves time or space | the error is logged |
| `run_concurrently` | several concurrent calls | the caller gets the error |

User code can replace builtins in a worker process. Therefore, the code that exits the process uses
no builtin.
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


def start_essential_thread(
    work: Callable[[], None],
    name: str,
    on_break: Callable[[BaseException], None] | None = None,
) -> threading.Thread:
    """Starts a daemon thread that the process depends on.

    Args:
        work: the function that the thread runs. The function can return at any time.
        name: the name of the thread.
        on_break: called in the thread if ``work`` raises an error. The callback must unblock
            everything that waits for the thread, by an error or a new thread. Without a callback,
            or if the callback raises, the process exits with code 1.
    """
    leave = os._exit

    def run() -> None:
        is_handled = False
        try:
            work()
            is_handled = True
        except BaseException as error:
            _log_error(name, error)
            if on_break is not None:
                on_break(error)
                is_handled = True
        finally:
            if not is_handled:
                leave(1)

    return _start_thread(run, name)


def start_helper_thread(work: Callable[[], None], name: str) -> threading.Thread:
    """Starts a daemon thread for optional work and logs any error. No code waits for the thread
    indefinitely.
    """

    def run() -> None:
        try:
            work()
        except BaseException as error:
            _log_error(name, error)

    return _start_thread(run, name)


def run_concurrently(
    work: Callable[[Item], Result], items: Sequence[Item], at_once: int, name: str
) -> list[Result]:
    """Returns the result of ``work`` for each item, in order, with up to ``at_once`` concurrent
    calls.

    After an error, no further call starts.

    Raises:
        BaseException: The error of ``work`` for the first item that failed, in item order.
    """
    if len(items) <= 1 or at_once <= 1:
        return [work(item) for item in items]
    calls = _CallQueue(work, items)
    threads = [_start_thread(calls.run, name) for _ in range(min(at_once, len(items)))]
    for thread in threads:
        thread.join()
    return calls.results()


class _CallQueue(Generic[Item, Result]):
    """Calls of one `run_concurrently`, which several threads process one at a time."""

    def __init__(self, work: Callable[[Item], Result], items: Sequence[Item]) -> None:
        self._work = work
        self._items = items
        self._lock = threading.Lock()
        self._next = 0
        self._results: dict[int, Result] = {}
        self._errors: dict[int, BaseException] = {}

    def run(self) -> None:
        """Runs calls until no call remains."""
        while (number := self._take_next_index()) is not None:
            try:
                self._results[number] = self._work(self._items[number])
            except BaseException as error:
                self._errors[number] = error

    def _take_next_index(self) -> int | None:
        with self._lock:
            if self._errors or self._next == len(self._items):
                return None
            self._next += 1
            return self._next - 1

    def results(self) -> list[Result]:
        """Returns the results in item order.

        Raises:
            BaseException: If a call failed: the error of the first failed item.
            RuntimeError: If a thread exited before its call returned.
        """
        if self._errors:
            raise self._errors[min(self._errors)]
        if len(self._results) < len(self._items):
            missing = len(self._items) - len(self._results)
            raise RuntimeError(
                f"{missing} of {len(self._items)} concurrent calls returned no result: a thread exited early"
            )
        return [self._results[number] for number in range(len(self._items))]


def _start_thread(run: Callable[[], None], name: str) -> threading.Thread:
    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


def _log_error(name: str, error: BaseException) -> None:
    try:
        _LOGGER.error("Thread %s stopped because of an error", name, exc_info=error)
    except BaseException:  # User code can break logging; the caller must continue anyway.
        return
