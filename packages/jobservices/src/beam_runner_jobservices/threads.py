"""Threads of the server: a thread for each call, and background threads that are restarted after errors."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

_AGAIN_SECONDS = 1.0
_LOGGER = logging.getLogger(__name__)


class ThreadPerCall(Executor):
    """An executor that runs every call on a new daemon thread, which ends with the call.

    A thread costs about 0.1 ms, which is little at the rate of Job API calls. A pool would have to
    be as large as the number of open streams. The gRPC server limits the number of calls. If the
    system can't start more threads, a call waits until another call ends.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._running = 0
        self._waiting: deque[Callable[[], None]] = deque()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        with self._lock:
            try:
                threading.Thread(
                    target=self._run_call, args=(call,), name=self._name, daemon=True
                ).start()
            except RuntimeError:
                if not self._running:
                    raise
                _LOGGER.warning(
                    "All threads are busy: a call waits for one of %d threads", self._running
                )
                self._waiting.append(call)
            else:
                self._running += 1
        return future

    def _run_call(self, call: Callable[[], None]) -> None:
        while True:
            call()
            with self._lock:
                if not self._waiting:
                    self._running -= 1
                    return
                call = self._waiting.popleft()


def start_retrying_thread(work: Callable[[], None], name: str) -> threading.Thread:
    """Starts a daemon thread that calls ``work``. If ``work`` raises, the thread calls it again
    after 1 s, until ``work`` returns.
    """

    def run_until_success() -> None:
        while True:
            try:
                work()
                return
            except BaseException:
                _LOGGER.exception("The thread %s raised an error, and continues", name)
            time.sleep(_AGAIN_SECONDS)

    thread = threading.Thread(target=run_until_success, name=name, daemon=True)
    thread.start()
    return thread
