"""A thread for each call, so that no open stream and no slow call ever keeps another waiting."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

_LOGGER = logging.getLogger(__name__)


class ThreadPerCall(Executor):
    """Runs every call on a new daemon thread, which ends with the call.

    A thread costs about 0.1 ms, which is nothing at the rate of Job API calls, while a pool would
    have to be as large as the number of streams that clients keep open. The gRPC server limits the
    number of calls. Where the system gives no more threads, a call waits until another has ended.
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
                    target=self._run, args=(call,), name=self._name, daemon=True
                ).start()
            except RuntimeError:
                if not self._running:
                    raise
                _LOGGER.warning("no more threads: a call waits for one of %d", self._running)
                self._waiting.append(call)
            else:
                self._running += 1
        return future

    def _run(self, call: Callable[[], None]) -> None:
        while True:
            call()
            with self._lock:
                if not self._waiting:
                    self._running -= 1
                    return
                call = self._waiting.popleft()
