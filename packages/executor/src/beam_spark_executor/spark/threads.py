"""Threads that run Spark jobs."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pyspark.util import InheritableThread

_LOGGER = logging.getLogger(__name__)


def start_job_thread(
    name: str, work: Callable[[], None], on_break: Callable[[BaseException], None]
) -> InheritableThread:
    """Starts a daemon thread with a separate Spark job group and scheduler pool.

    Args:
        on_break: called in the thread if ``work`` raises anything. It must wake up all code that
            waits for the thread.
    """

    def run_in_job_group() -> None:
        try:
            work()
        except BaseException as error:
            _LOGGER.exception("the thread %s exited with an error", name)
            on_break(error)

    thread = InheritableThread(run_in_job_group, name=name, daemon=True)
    thread.start()
    return thread
