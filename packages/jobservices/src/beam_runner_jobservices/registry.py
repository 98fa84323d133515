"""Registry of a server's jobs, from the Run call until the server removes them from the list of finished jobs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

import attrs
from beam_runner_model.errors import RunnerError, Unavailable
from beam_runner_model.jobs import Importance, JobSpec, JobState
from beam_runner_model.threads import start_helper_thread

from beam_runner_jobservices.ended_jobs import EndedJob, EndedJobs
from beam_runner_jobservices.error_log import ErrorLog
from beam_runner_jobservices.errors import (
    ExecutorFailed,
    JobRejected,
    NotFound,
    strip_traceback,
)
from beam_runner_jobservices.finished_job import FinishedJob
from beam_runner_jobservices.history import JobHistory
from beam_runner_jobservices.job import Job
from beam_runner_jobservices.job_specs import (
    find_missing_artifact,
    locate_artifacts,
    make_job_id,
    make_new_job,
)
from beam_runner_jobservices.limits import ServerLimits
from beam_runner_jobservices.ports import JobExecutor
from beam_runner_jobservices.preparations import PreparationRegistry
from beam_runner_jobservices.recorder import (
    FinishedJobSummary,
    InMemoryRecorder,
    Recorder,
    UnfinishedJob,
)
from beam_runner_jobservices.retained_programs import ProgramRetention
from beam_runner_jobservices.run_requests import RunRequest
from beam_runner_jobservices.store import ArtifactStore
from beam_runner_jobservices.texts import format_exception
from beam_runner_jobservices.user_queues import UserQueues
from beam_runner_jobservices.users import Quota
from beam_runner_jobservices.wire.descriptions import read_step_names

_RESUME_AGAIN_SECONDS = 5.0
_STOPPING = "the job server is shutting down and accepts no jobs"
_LOGGER = logging.getLogger(__name__)


class JobRegistry:
    """Registry of jobs, which starts, finds and removes jobs. Thread-safe.

    Lock order: take a job's lock before this lock, never after it.
    """

    def __init__(
        self,
        executor: JobExecutor,
        store: ArtifactStore,
        preparations: PreparationRegistry,
        recorder: Recorder,
        limits: ServerLimits,
        clock: Callable[[], float],
        queues: UserQueues | None = None,
    ) -> None:
        self._executor = executor
        self._store = store
        self._preparations, self._recorder = preparations, recorder
        self._limits = limits
        self._clock = clock
        self._queues = queues or UserQueues(lambda user: Quota())
        self._lock = threading.Lock()
        self._refused = threading.Event()
        self._starts: dict[str, RunRequest] = {}
        self._jobs: dict[str, Job | FinishedJob] = {}
        self._programs = ProgramRetention(store, clock)
        self._ended = EndedJobs(limits, in_memory=isinstance(recorder, InMemoryRecorder))
        self._unfinished: list[UnfinishedJob] = []
        self._waits_told: dict[str, str] = {}

    def run_job(self, preparation_id: str, retrieval_endpoint: str, user: str = "") -> str:
        """Records the prepared job. Starts the job, or queues it behind other jobs of the user.
        Returns the job's id, which differs from the preparation's id.

        A repeated Run starts nothing and returns the answer to the first Run. So a client can
        repeat the call after its connection broke.

        Raises:
            NotFound, NotReady: see `PreparationRegistry.take_preparation`.
            LimitExceeded: the user has the maximum of waiting jobs. The preparation stays.
            Unavailable: the server is shutting down, or the job can't be recorded.
            JobRejected: the executor refuses the job, which exists and is FAILED.
            ExecutorFailed: the executor failed to start the job, which exists and is FAILED.
        """
        preparation = None
        with self._lock:
            start = self._starts.get(preparation_id)
            if start is None:
                if self._refused.is_set():
                    raise Unavailable(_STOPPING)
                options = self._preparations.find_options(preparation_id)
                self._queues.check_user_quota(user, options)
                preparation = self._preparations.take_preparation(preparation_id)
                start = RunRequest(preparation_id, make_job_id(preparation.request))
                self._starts[preparation_id] = start
                self._queues.add_job(user, start.job_id, options)
        if preparation is not None:
            taken, now = preparation, self._clock()
            self._start_job(
                start, lambda: make_new_job(start.job_id, taken, retrieval_endpoint, user, now)
            )
        return self._wait_for_answer(start)

    def run_retained_job(self, kept: UnfinishedJob) -> str:
        """Records and starts a job whose artifacts the store has; returns the job's id.

        Raises the errors of `run_job`.
        """
        start = RunRequest(kept.preparation_id, kept.spec.job_id)
        with self._lock:
            if self._refused.is_set():
                raise Unavailable(_STOPPING)
            self._starts[start.preparation_id] = start
            self._queues.add_job(kept.spec.user, start.job_id, kept.spec.options)
        self._start_job(start, lambda: kept)
        return self._wait_for_answer(start)

    def _wait_for_answer(self, start: RunRequest) -> str:
        return start.wait_for_answer(lambda: start.job_id in self._jobs)

    def _start_job(self, start: RunRequest, make_job: Callable[[], UnfinishedJob]) -> None:
        """Records the job. Starts the job in a thread, because the start can wait for a store."""
        try:
            kept = make_job()
            self._recorder.add_job(kept)
            job = self._create_job(kept, start)
        except BaseException as error:
            self._refuse_job(start, error)
        else:
            start_helper_thread(
                partial(self._start_recorded_job, start, job, kept.spec), "beam-job-api-beginning"
            )

    def _start_recorded_job(self, start: RunRequest, job: Job, spec: JobSpec) -> None:
        try:
            if self._queues.is_queued(spec.job_id):
                self._wait_in_queue(job, spec)
            else:
                self._start_executor(job, spec)
        except BaseException as error:
            self._refuse_job(start, error)
        else:
            start.answer.set_result(start.job_id)

    def _refuse_job(self, start: RunRequest, error: BaseException) -> None:
        self._release_queue_place(start.job_id)
        # Remove the traceback, because the error stays in memory as long as the job, with all
        # objects that the traceback refers to.
        start.answer.set_exception(strip_traceback(error))

    def _wait_in_queue(self, job: Job, spec: JobSpec) -> None:
        """Queues a job that exceeds its user's quota. `start_waiting_jobs` starts it later."""
        job.report_message(Importance.BASIC, self._queues.describe_wait(spec.job_id))
        self._queues.mark_job_waiting(spec)
        self.start_waiting_jobs()

    def start_waiting_jobs(self) -> None:
        """Starts the waiting jobs whose users may run more jobs, each in a thread."""
        for spec in self._queues.start_queued_jobs():
            start_helper_thread(partial(self._start_waiting_job, spec), "beam-job-api-beginning")

    def _start_waiting_job(self, spec: JobSpec) -> None:
        job = self.get_job(spec.job_id)
        if isinstance(job, FinishedJob) or job.suspended:
            return
        try:
            self._start_executor(job, spec, restored=True)
        except Unavailable as error:
            self._report_wait(job, str(error))
        except RunnerError as error:
            _LOGGER.warning("Can't start a job that waited: %s", error)

    def _release_queue_place(self, job_id: str) -> None:
        """Releases the quota that an ended job used, so that the next job of the user can start."""
        self._queues.remove_job(job_id)
        self.start_waiting_jobs()

    def _create_job(self, kept: UnfinishedJob, start: RunRequest) -> Job:
        errors = ErrorLog(lambda: read_step_names(kept.spec.pipeline), kept.errors)
        job = Job(
            kept.spec,
            JobHistory(self._limits, kept.entries, errors),
            kept.series,
            kept.succession,
            recorder=self._recorder,
            clock=self._clock,
            on_end=lambda: self._programs.end_job(start.job_id, kept.owner, job.succession),
            on_ended=lambda job: self._replace_by_summary(start, job),
        )
        with self._lock:
            self._jobs[start.job_id] = job
        return job

    def _start_executor(self, job: Job, spec: JobSpec, *, restored: bool = False) -> None:
        """Passes the job to the executor, unless a client has cancelled the job. A refused job is
        FAILED.

        If no resources exist for a restored job, the job stays unfinished for the next server.
        """
        if not job.mark_started():
            return
        try:
            job.set_executor_handle(self._executor(spec, job))
        except JobRejected as rejection:
            _LOGGER.info("job %s was rejected: %s", spec.job_id, rejection.reason)
            job.report_state(JobState.FAILED, rejection.reason)
            raise JobRejected(
                f"job {spec.job_id} was rejected: {rejection.reason}",
                unsupported=rejection.unsupported,
            ) from None
        except BaseException as error:
            if restored and isinstance(error, Unavailable):
                raise
            _LOGGER.exception("job %s: the executor failed to start the job", spec.job_id)
            reason = f"Can't start the job: {format_exception(error)}"
            job.report_state(JobState.FAILED, reason)
            raise ExecutorFailed(f"job {spec.job_id}: {reason}") from error

    def restore_jobs(self, jobs: Sequence[UnfinishedJob | FinishedJobSummary]) -> None:
        """Restores the jobs of an earlier server. Must be called before anything else."""
        self._programs.restore_programs(jobs)
        ended: list[tuple[RunRequest, FinishedJob]] = []
        for kept in jobs:
            job_id = kept.job_id if isinstance(kept, FinishedJobSummary) else kept.spec.job_id
            start = RunRequest(kept.preparation_id, job_id)
            start.answer.set_result(job_id)
            self._starts[start.preparation_id] = start
            if isinstance(kept, FinishedJobSummary):
                job = FinishedJob(kept, self._recorder, self._limits)
                self._jobs[job_id] = job
                ended.append((start, job))
            else:
                self._create_job(kept, start)
                self._unfinished.append(kept)
        self._queues.restore_jobs(self._unfinished)
        for start, job in sorted(ended, key=lambda item: item[1].current.time):
            self._add_finished_job(start, job.size, job.current.time)

    def resume_jobs(self, retrieval_endpoint: str) -> None:
        """Passes the restored unfinished jobs to the executor again.

        The method returns when the executor has accepted them. A job that the executor refuses is
        FAILED. If the executor can't accept a job now, the method tries again a few seconds later.
        It stops early after `refuse_new_jobs`, and leaves the other jobs to the next server.
        """
        while self._unfinished and not self._refused.is_set():
            # Remove a job from the list only after it is handled, so that it is tried again after an error.
            for kept in tuple(self._unfinished):
                if self._refused.is_set():
                    return
                if self._resume_job(kept, retrieval_endpoint):
                    self._unfinished.remove(kept)
            if self._unfinished:
                self._refused.wait(_RESUME_AGAIN_SECONDS)

    def _resume_job(self, kept: UnfinishedJob, retrieval_endpoint: str) -> bool:
        """Passes a job to the executor again. Returns False if another try is necessary."""
        job = self.get_job(kept.spec.job_id)
        if isinstance(job, FinishedJob) or job.current.state.is_terminal:
            return True
        if missing := find_missing_artifact(kept.spec, self._store):
            job.report_state(JobState.FAILED, f"Can't resume the job: {missing}")
            return True
        spec = attrs.evolve(
            kept.spec,
            artifacts=locate_artifacts(kept.spec, self._store),
            retrieval_endpoint=retrieval_endpoint,
            resumed=kept.was_running,
        )
        if self._queues.is_queued(spec.job_id):
            self._wait_in_queue(job, spec)
            return True
        if spec.job_id not in self._waits_told:
            job.report_message(
                Importance.BASIC,
                "the job server has restarted; the job resumes from its last commit",
            )
        try:
            self._start_executor(job, spec, restored=True)
        except Unavailable as error:
            if job.current.state is JobState.CANCELLING:
                return job.report_state(JobState.CANCELLED)
            self._report_wait(job, str(error))
            return False
        except RunnerError as error:
            _LOGGER.warning("Can't resume a job: %s", error)
        return True

    def _report_wait(self, job: Job, reason: str) -> None:
        if self._waits_told.get(job.spec.job_id) != reason:
            self._waits_told[job.spec.job_id] = reason
            _LOGGER.warning("job %s can't resume yet: %s", job.spec.job_id, reason)
            job.report_message(Importance.WARNING, f"the job can't resume yet: {reason}")

    def _replace_by_summary(self, start: RunRequest, job: Job) -> None:
        """Replaces a finished job in memory by its summary, and starts the user's next queued job."""
        keeps_program = self._programs.is_retained(start.job_id)
        ended = job.make_summary(start.preparation_id, keeps_program=keeps_program)
        if ended is not None:
            with self._lock:
                self._jobs[start.job_id] = FinishedJob(ended, self._recorder, self._limits)
        self._add_finished_job(start, job.kept_bytes or 0, job.current.time)
        self._release_queue_place(start.job_id)

    def _add_finished_job(self, start: RunRequest, size: int, ended: float) -> None:
        """Records the end of a job, and removes finished jobs that exceed the limits."""
        with self._lock:
            self._ended.add_job(EndedJob(start.job_id, start.preparation_id, size, ended))
        self.remove_excess_jobs()

    def remove_excess_jobs(self) -> None:
        """Removes finished jobs that exceed the limits of number, size and age, and programs whose
        retention time is over.
        """
        self._programs.release_expired()
        with self._lock:
            forgotten = self._ended.take_excess_jobs(self._clock(), self._programs.is_retained)
            for one in forgotten:
                del self._jobs[one.job_id]
                del self._starts[one.preparation_id]
        for one in forgotten:
            self._recorder.delete_job(one.job_id)

    def get_job(self, job_id: str) -> Job | FinishedJob:
        """Returns the job with this id.

        Raises:
            NotFound: the job doesn't exist. The id of a preparation isn't the id of a job.
        """
        with self._lock:
            job = self._jobs.get(job_id)
        if job is None:
            raise NotFound(f"no job {job_id!r} on this server")
        return job

    def list_jobs(self) -> tuple[Job | FinishedJob, ...]:
        """Returns all jobs in memory, in the order in which they were run."""
        with self._lock:
            return tuple(self._jobs.values())

    def cancel_all(self, timeout: float) -> tuple[str, ...]:
        """Cancels every unfinished job, and waits up to `timeout` seconds until all have finished.

        Returns the ids of the jobs that are unfinished after the wait.
        """
        running = self._list_unfinished_jobs()
        # Cancel waiting jobs before the jobs whose end would start them.
        for job in reversed(running):
            job.cancel()
        deadline = time.monotonic() + timeout
        return tuple(
            job.spec.job_id
            for job in running
            if not job.history.wait_until_ended(max(0.0, deadline - time.monotonic()))
        )

    def drain_all(self) -> tuple[str, ...]:
        """Drains all unfinished jobs. Returns the ids of these jobs."""
        running = self._list_unfinished_jobs()
        for job in running:
            job.drain()
        return tuple(job.spec.job_id for job in running)

    def _list_unfinished_jobs(self) -> list[Job]:
        jobs = (job for job in self.list_jobs() if isinstance(job, Job))
        return [job for job in jobs if not job.current.state.is_terminal]

    def suspend_all(self) -> tuple[str, ...]:
        """Ignores all further reports of jobs; returns the ids of the unfinished ones."""
        return tuple(job.info.job_id for job in self.list_jobs() if job.suspend())

    def record_stage_series(self) -> None:
        """Records the history of the stages of running jobs, if jobs outlive the server."""
        if not isinstance(self._recorder, InMemoryRecorder):
            for job in self._list_unfinished_jobs():
                try:
                    job.record_stage_series()
                except Exception:
                    _LOGGER.exception("job %s: can't record the time series", job.spec.job_id)

    def refuse_new_jobs(self) -> None:
        """Refuses all new jobs from now on."""
        with self._lock:
            self._refused.set()
