"""Retention of the artifacts of replaced jobs, which a rollback needs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

import attrs
from beam_runner_model.successions import Succession

from beam_runner_jobservices.recorder import FinishedJobSummary, UnfinishedJob
from beam_runner_jobservices.store import ArtifactStore

_LOGGER = logging.getLogger(__name__)


@attrs.frozen
class _Program:
    """A program in the store. `owner` is the name that holds its artifacts."""

    owner: str
    until: float


class ProgramRetention:
    """Keeper of the programs (artifacts) of replaced jobs. Thread-safe.

    The server retains the program of a job until its time is over, or until the job that replaced it
    has ended, because only a running job can be rolled back.
    """

    def __init__(self, store: ArtifactStore, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._programs: dict[str, _Program] = {}

    def end_job(self, job_id: str, owner: str, succession: Succession) -> None:
        """Retains or removes the artifacts of a job that ends."""
        self._release_program(succession.predecessor)
        if succession.program_kept_until > self._clock():
            with self._lock:
                self._programs[job_id] = _Program(owner, succession.program_kept_until)
        else:
            self._release_artifacts(job_id, owner)

    def restore_programs(self, jobs: Sequence[UnfinishedJob | FinishedJobSummary]) -> None:
        """Retains the programs that an earlier server retained, and that a rollback can still need."""
        unfinished = {job.spec.job_id for job in jobs if isinstance(job, UnfinishedJob)}
        for job in jobs:
            if isinstance(job, FinishedJobSummary) and job.owner:
                until = job.times.program_kept_until or 0.0
                self._programs[job.job_id] = _Program(job.owner, until)
                if job.times.successor not in unfinished:
                    self._release_program(job.job_id)

    def is_retained(self, job_id: str) -> bool:
        """Returns whether the server retains the program of a job."""
        with self._lock:
            program = self._programs.get(job_id)
        return program is not None and program.until > self._clock()

    def release_expired(self) -> None:
        """Removes the programs whose times are over."""
        now = self._clock()
        with self._lock:
            expired = [one for one, program in self._programs.items() if program.until <= now]
        for job_id in expired:
            self._release_program(job_id)

    def _release_program(self, job_id: str) -> None:
        with self._lock:
            program = self._programs.pop(job_id, None)
        if program is not None:
            self._release_artifacts(job_id, program.owner)

    def _release_artifacts(self, job_id: str, owner: str) -> None:
        try:
            self._store.release_files(owner)
        except OSError:
            _LOGGER.exception("job %s: can't remove the artifacts", job_id)
