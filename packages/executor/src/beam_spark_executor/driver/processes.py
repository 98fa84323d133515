"""The Python worker processes of one job: known while attached, ended with the job."""

from __future__ import annotations

import logging
import threading

from beam_runner_worker.fnapi import stop_external_worker

from beam_spark_executor.channel.messages import (
    Abort,
    EndJob,
    ExternalWorkerStarted,
    FromServer,
    TearDown,
)
from beam_spark_executor.channel.server import WorkerLink

_STOP_SECONDS = 3.0
_LOGGER = logging.getLogger(__name__)


class JobProcesses:
    """All methods may be called from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._links: set[WorkerLink] = set()
        self._external: dict[WorkerLink, list[ExternalWorkerStarted]] = {}
        self._ended = False

    def attached(self, link: WorkerLink) -> None:
        """A process begins; one that comes after the job's end is sent away at once."""
        with self._changed:
            self._links.add(link)
            if self._ended:
                link.send(Abort())

    def detached(self, link: WorkerLink) -> None:
        """A process has ended."""
        with self._changed:
            self._links.discard(link)
            self._changed.notify_all()

    def external_worker(self, link: WorkerLink, started: ExternalWorkerStarted) -> None:
        """A process has asked a worker pool outside for an SDK harness."""
        with self._changed:
            self._external.setdefault(link, []).append(started)

    def tear_down(self) -> None:
        """Has all processes tear down already, before they are to end: nothing more is to run."""
        with self._changed:
            self._tell(TearDown())

    def end(self, *, abort: bool, seconds: float) -> bool:
        """Ends all processes: torn down in order, or at once.

        Returns:
            Whether all of them have ended within the limit.
        """
        with self._changed:
            self._ended = True
            self._tell(Abort() if abort else EndJob())
        gone = self._wait_until_gone(seconds)
        self._stop_external_workers()
        return gone

    def _tell(self, command: FromServer) -> None:
        for link in self._links:
            link.send(command)

    def _wait_until_gone(self, seconds: float) -> bool:
        with self._changed:
            gone = self._changed.wait_for(lambda: not self._links, seconds)
            for link in self._links:
                _LOGGER.warning(
                    "Python worker %s on %s did not end within %.0f s",
                    link.hello.pid,
                    link.hello.host,
                    seconds,
                )
            return gone

    def _stop_external_workers(self) -> None:
        """Stops the harnesses outside; their process may have been killed before it could."""
        with self._changed:
            started = [worker for workers in self._external.values() for worker in workers]
            self._external.clear()
        for worker in started:
            stop_external_worker(worker.endpoint, worker.worker_id, _STOP_SECONDS)
