"""The Python worker processes of one job: known while attached, ended with the job.

One that says nothing any more is looked at from outside. If its channel is broken it is killed, for its
bundle to be tried again; if code in C holds Python's lock, or it was stopped, it may go on one day.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from pathlib import Path

import attrs
from beam_runner_worker.fnapi.external import stop_external_worker

from beam_runner_runtime.channel.messages import (
    Beat,
    Closed,
    EndJob,
    ExitNow,
    ExternalWorkerStarted,
    FromServer,
    FromWorker,
    Hello,
    TearDown,
)
from beam_runner_runtime.channel.server import WorkerLink
from beam_runner_runtime.channel.vitals import read_vitals
from beam_runner_runtime.shutdown.detections import Detector, notice
from beam_runner_runtime.shutdown.limits import LIMITS

_LOGGER = logging.getLogger(__name__)


@attrs.frozen
class Silence:
    """A process that can't speak.

    Attributes:
        hello: what it said first.
        seconds: for how long.
        stage: the id of the stage that it works on; empty if that is not known.
    """

    hello: Hello
    seconds: float
    stage: str


class JobProcesses:
    """All methods may be called from any thread, but `look` from one.

    Args:
        folder: the job's, in which each process has its own.
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

    def attached(self, link: WorkerLink) -> None:
        """A process begins; one that comes after the job's end is sent away at once."""
        with self._changed:
            self._links.add(link)
            if self._ended:
                link.send(ExitNow())

    def detached(self, link: WorkerLink) -> None:
        """A process has ended."""
        with self._changed:
            self._links.discard(link)
            self._begun_by_gone.update(self._begun.pop(link, {}))
            if link in self._closed:
                self._closed.discard(link)
            elif not self._aborted:
                self._lost += 1
            self._changed.notify_all()

    @property
    def begun(self) -> Counter[str]:
        """By stage, how many bundles all processes have told to have begun."""
        with self._changed:
            total = Counter(self._begun_by_gone)
            for counts in self._begun.values():
                total.update(counts)
            return total

    @property
    def lost(self) -> int:
        """How many processes have ended without being asked to."""
        with self._changed:
            return self._lost

    def links(self) -> tuple[WorkerLink, ...]:
        """Those that are attached."""
        with self._changed:
            return tuple(self._links)

    def heard(self, link: WorkerLink, message: FromWorker) -> bool:
        """A process says something; whether that was about the process itself, and for nobody else."""
        with self._changed:
            match message:
                case ExternalWorkerStarted():
                    self._external.setdefault(link, []).append(message)
                case Beat(begun=begun):
                    self._begun.setdefault(link, {}).update(begun)
                case Closed(begun):
                    self._begun.setdefault(link, {}).update(begun)
                    self._closed.add(link)
                case _:
                    return False
        return True

    def look(self) -> list[Silence]:
        """Those that can't speak; kills those whose channel is broken. Costs nothing if all do."""
        now = time.monotonic()
        with self._changed:
            silent = [link for link in self._links if now - link.heard > LIMITS.silent_seconds]
        self._beats = {link: n for link, n in self._beats.items() if link in silent}
        found = []
        for link in silent:
            vitals = read_vitals(self._folder / link.hello.folder)
            found.append(Silence(link.hello, now - link.heard, vitals.stage if vitals else ""))
            if vitals is not None:
                first = self._beats.setdefault(link, vitals.beats)
                if (vitals.beats - first) * LIMITS.beat_seconds > LIMITS.mute_seconds:
                    _LOGGER.warning("Python worker %s has lost its channel", link.hello.pid)
                    notice(Detector.VITALS, link.name)
                    link.kill()
        return found

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
            self._aborted = self._aborted or abort
            self._tell(ExitNow() if abort else EndJob())
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
            stop_external_worker(worker.endpoint, worker.worker_id, LIMITS.external_stop_seconds)
