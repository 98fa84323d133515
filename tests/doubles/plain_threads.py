"""Threads instead of the threads of Spark jobs, which need a real session."""

from __future__ import annotations

import threading
from collections.abc import Callable


def start_plain_thread(
    name: str, work: Callable[[], None], on_break: Callable[[BaseException], None]
) -> threading.Thread:
    """Starts a daemon thread that reports exceptions of its work."""

    def run() -> None:
        try:
            work()
        except BaseException as error:
            on_break(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread
