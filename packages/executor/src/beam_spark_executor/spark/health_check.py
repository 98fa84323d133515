"""Health check of Spark with a time limit: the Java process can be stopped, or busy with garbage collection."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from beam_runner_model.threads import start_essential_thread

from beam_spark_executor.spark.shutdown import SPARK_LIMITS

log = logging.getLogger(__name__)


class SparkHealthCheck:
    """Sends requests to Spark in a separate thread, one at a time, and reports whether Spark
    responds.

    Args:
        ask: function that sends one request to Spark. It may block forever, but must not raise an
            error.
        limit: the time limit in seconds for one response; None is `pulse_seconds`.
    """

    def __init__(self, ask: Callable[[], bool], limit: float | None = None) -> None:
        self._ask = ask
        self._limit = SPARK_LIMITS.pulse_seconds if limit is None else limit
        self._changed = threading.Condition()
        self._wanted = self._told = False
        self._answer: bool | None = None
        self._thread: threading.Thread | None = None

    def is_healthy(self) -> bool | None:
        """Returns whether Spark is healthy; None if Spark didn't respond in time, which is logged once. Thread-safe."""
        with self._changed:
            self._wanted, self._answer = True, None
            if self._thread is None:
                self._thread = start_essential_thread(
                    self._answer_requests, "pulse", self._on_thread_failure
                )
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._answer is not None, self._limit)
            if (self._answer is None) != self._told:
                self._told = not self._told
                if self._told:
                    log.warning("Spark's Java process has not responded for %g s", self._limit)
                else:
                    log.info("Spark's Java process responds again")
            return self._answer

    def _on_thread_failure(self, error: BaseException) -> None:
        with self._changed:
            self._thread = None  # the next health check starts another thread

    def _answer_requests(self) -> None:
        while True:
            with self._changed:
                if not self._changed.wait_for(
                    lambda: self._wanted, SPARK_LIMITS.pulse_rest_seconds
                ):
                    self._thread = None
                    return
                self._wanted = False
            answer = self._ask()
            with self._changed:
                self._answer = answer
                self._changed.notify_all()
