"""A thread for each call, so that no open stream and no slow call ever keeps another waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class ThreadPerCall(Executor):
    """Runs every call on a new daemon thread, which ends with the call.

    A thread costs about 0.1 ms, which is nothing to the rate of Job API calls, while a pool would have to be as large as
    the number of streams that clients keep open. The gRPC server limits the number of calls.
    """

    def __init__(self, name: str) -> None:
        self._name = name

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

        threading.Thread(target=call, name=self._name, daemon=True).start()
        return future
