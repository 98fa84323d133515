"""Python worker processes of one job, from their attachment to the end of the job.

If a process doesn't send messages, the server reads the file in which the process records that it
is alive. If the process is alive and only the connection is broken, the server kills the process,
and the bundle runs again. If C code holds Python's GIL, or if the process is stopped, the server
waits.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from pathlib import Path

import attrs
from beam_runner_model.process_exits import ProcessExit
from beam_runner_runtime.channel.exits import wait_for_exit
from beam_runner_runtime.channel.messages import (
    EndJob,
    ExitProcess,
    ExternalWorkerStarted,
    FromServer,
    FromWorker,
    Heartbeat,
    TearDownDoFns,
    WorkerClosed,
    WorkerHello,
)
from beam_runner_runtime.channel.server import WorkerLink
from beam_runner_runtime.channel.vitals import read_liveness
from beam_runner_runtime.shutdown.detections import Detector, log_detection
from beam_runner_runtime.shutdown.limits import LIMITS
from beam_runner_worker.fnapi.external import stop_external_worker

_LOGGER = logging.getLogger(__name__)


@attrs.frozen
class SilentProcess:
    """Worker process that has sent no message for several seconds.

    Attributes:
        hello: first message of the process.
        seconds: seconds since the last message.
        stage: id of the stage that the process works on; empty if unknown.
    """

    hello: WorkerHello
    seconds: float
    stage: str


class JobProcesses:
    """Worker processes of one job. All methods are thread-safe except `find_silent_processes`,
    which must always be called from the same thread.

    Args:
        folder: folder of the job, with one subfolder for each process.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._beats: dict[WorkerLink, int] = {}
        self._changed = threading.Condition()
        self._links: set[WorkerLink] = set()
        self._external: dict[WorkerLink, list[ExternalWorkerStarted]] = {}
        self._begun: dict[WorkerLink, dict[str, int]] = {}
        self._begun_by_gone: Counter[str] = Counter()
        self._closed: set[WorkerLink] = set()
        self._lost = 0
        self._ended = False
        self._aborted = False

    def add_process(self, link: WorkerLink) -> None:
        """Adds a process that has connected. Ends the process immediately if the job has already ended."""
        with self._changed:
            self._links.add(link)
            if self._ended:
                link.send(ExitProcess())

    def remove_process(self, link: WorkerLink) -> bool:
        """Removes an exited process. Returns whether it exited unexpectedly, and counts unexpected exits."""
        with self._changed:
            self._links.discard(link)
            self._begun_by_gone.update(self._begun.pop(link, {}))
            is_lost = link not in self._closed and not self._aborted
            self._closed.discard(link)
            self._lost += is_lost
            self._changed.notify_all()
            return is_lost

    def wait_for_exit(self, link: WorkerLink) -> ProcessExit | None:
        """Returns the exit status of a lost process, or None if its parent process doesn't record
        the status in time.
        """
        return wait_for_exit(self._folder / link.hello.folder, LIMITS.exit_record_seconds)

    @property
    def started_bundle_counts(self) -> Counter[str]:
        """Number of bundles that the processes report to have started, by stage."""
        with self._changed:
            total = Counter(self._begun_by_gone)
            for counts in self._begun.values():
                total.update(counts)
            return total

    @property
    def lost_process_count(self) -> int:
        """Number of processes that exited unexpectedly."""
        with self._changed:
            return self._lost

    def list_links(self) -> tuple[WorkerLink, ...]:
        """Returns the links to all attached worker processes."""
        with self._changed:
            return tuple(self._links)

    def handle_message(self, link: WorkerLink, message: FromWorker) -> bool:
        """Handles a message about the process itself (not about a bundle). Returns False for other messages."""
        with self._changed:
            match message:
                case ExternalWorkerStarted():
                    self._external.setdefault(link, []).append(message)
                case Heartbeat(begun=begun):
                    self._begun.setdefault(link, {}).update(begun)
                case WorkerClosed(begun):
                    self._begun.setdefault(link, {}).update(begun)
                    self._closed.add(link)
                case _:
                    return False
        return True

    def find_silent_processes(self) -> list[SilentProcess]:
        """Returns the unresponsive processes, and kills processes with a broken channel. Needs no
        file access if all processes respond.
        """
        now = time.monotonic()
        with self._changed:
            silent = [link for link in self._links if now - link.heard > LIMITS.silent_seconds]
        self._beats = {link: n for link, n in self._beats.items() if link in silent}
        found = []
        for link in silent:
            vitals = read_liveness(self._folder / link.hello.folder)
            found.append(
                SilentProcess(link.hello, now - link.heard, vitals.stage if vitals else "")
            )
            if vitals is not None:
                first = self._beats.setdefault(link, vitals.beats)
                if (vitals.beats - first) * LIMITS.beat_seconds > LIMITS.mute_seconds:
                    _LOGGER.warning(
                        "killing Python worker %s, which lost its channel to the server",
                        link.hello.pid,
                    )
                    log_detection(Detector.VITALS, link.name)
                    link.kill()
        return found

    def request_tear_down(self) -> None:
        """Orders all processes to tear down their DoFns, because no bundle follows."""
        with self._changed:
            self._send_to_all(TearDownDoFns())

    def end_processes(self, *, abort: bool, seconds: float) -> bool:
        """Ends all processes: immediately if `abort` is true, otherwise after the teardown of their
        DoFns.

        Returns:
            Whether all processes exited within `seconds`.
        """
        with self._changed:
            self._ended = True
            self._aborted = self._aborted or abort
            self._send_to_all(ExitProcess() if abort else EndJob())
        gone = self._wait_for_exits(seconds)
        self._stop_external_workers()
        return gone

    def _send_to_all(self, command: FromServer) -> None:
        for link in self._links:
            link.send(command)

    def _wait_for_exits(self, seconds: float) -> bool:
        with self._changed:
            gone = self._changed.wait_for(lambda: not self._links, seconds)
            for link in self._links:
                _LOGGER.warning(
                    "Python worker %s on %s didn't exit within %.0f s",
                    link.hello.pid,
                    link.hello.host,
                    seconds,
                )
            return gone

    def _stop_external_workers(self) -> None:
        """Stops the external SDK harnesses that killed worker processes couldn't stop."""
        with self._changed:
            started = [worker for workers in self._external.values() for worker in workers]
            self._external.clear()
        for worker in started:
            stop_external_worker(worker.endpoint, worker.worker_id, LIMITS.external_stop_seconds)
