"""Updates: replacement of running jobs of this server by new jobs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

from beam_runner_driver.job.job import RunningJob
from beam_runner_driver.job.job_events import UpdateRequested
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.updates.job_update import JobUpdate, UpdateOutcome, UpdateResult
from beam_runner_driver.updates.succession import SuccessorJob
from beam_runner_jobservices.errors import JobRejected
from beam_runner_jobservices.ports import JobHandle, JobReporter
from beam_runner_model.errors import Unavailable
from beam_runner_model.jobs import Importance, JobInfo, JobSpec, JobState
from beam_runner_model.successions import Succession
from beam_runner_model.threads import start_helper_thread
from beam_runner_model.updates import UpdateReport
from beam_runner_runtime.update_options import (
    ShadowOptions,
    UpdateOptions,
    parse_update_options,
)
from beam_runner_storage.journal.store import JournalStore

from beam_runner_server.job_answers import wait_for_answer
from beam_runner_server.job_plans import JobPlanner
from beam_runner_server.shadow_runs import ShadowRunner
from beam_runner_server.started_jobs import StartedJob
from beam_runner_server.update_choice import choose_job_to_replace
from beam_runner_server.update_messages import describe_update_refusal, make_update_message_lines
from beam_runner_server.updating_job import UpdatingJob
from beam_runner_server.waiting_jobs import NeverStartedJob

_INTERRUPTED = UpdateResult(UpdateOutcome.INTERRUPTED, reason="the job ended")
_LOGGER = logging.getLogger(__name__)


Launch: TypeAlias = Callable[[JobSpec, JobReporter, JobLedger], RunningJob | None]
"""Function that starts a job with a ledger (committed state). Returns None if the server is stopping."""


class JobUpdateManager:
    """Manager of the updates in progress, each of which has a thread. Thread-safe.

    Args:
        store: store of the journals.
        planner: planner of new jobs.
        list_jobs: returns all jobs of the server.
        find_started: returns the running job with an ID; None if it doesn't run.
        launch: starts a job that has replaced another job.
        shadows: runner of shadow runs.
    """

    def __init__(
        self,
        store: JournalStore,
        planner: JobPlanner,
        list_jobs: Callable[[], Iterable[JobInfo]],
        find_started: Callable[[str], StartedJob | None],
        launch: Launch,
        shadows: ShadowRunner,
    ) -> None:
        self._store = store
        self._planner = planner
        self._list_jobs = list_jobs
        self._find_started = find_started
        self._launch = launch
        self._shadows = shadows
        self._threads: set[threading.Thread] = set()

    def begin_update(self, job: JobSpec, reporter: JobReporter, update: UpdateOptions) -> JobHandle:
        """Begins to replace the running job that the options select, and returns a handle of the new job.

        Raises:
            JobRejected: the options select no job that can be replaced, or the pipeline of the new
                job is refused.
            Unavailable: the job to replace hasn't resumed yet on this server.
        """
        job_id = choose_job_to_replace(self._list_jobs(), job, update)
        old = self._find_started(job_id)
        if old is None:
            raise Unavailable(f"job {job_id}, which the job replaces, hasn't resumed yet")
        if old.spec.user != job.user:
            raise JobRejected(
                f"job {job_id} belongs to user {old.spec.user!r}, who alone can replace it",
                unsupported=False,
            )
        planned = self._planner.plan_job(job)
        self._planner.check_tables(planned.plan)
        if update.rollback_to:
            reporter.report_message(
                Importance.BASIC, f"the job runs the program of job {update.rollback_to} again"
            )
        request = JobUpdate(
            job.job_id,
            SuccessorJob(planned.plan, planned.tuning, update.wishes, planned.options.key_shards),
            self._store.get_journal(job.job_id),
            update.quiet_seconds,
            update.is_check,
            partial(_record_report, old, job.job_id, reporter),
            partial(_record_replacement, old, job.job_id, reporter, update.keep_seconds),
        )
        handle = UpdatingJob(request)
        run = partial(self._run_update, job, reporter, old, request, handle, update.shadow)
        self._threads.add(start_helper_thread(run, f"update-{job.job_id}"))
        return handle

    def wait_for_end(self, seconds: float) -> None:
        """Waits up to `seconds` for the end of the updates in progress. The old jobs of these
        updates have already ended.
        """
        for thread in tuple(self._threads):
            thread.join(seconds)

    def _run_update(
        self,
        job: JobSpec,
        reporter: JobReporter,
        old: StartedJob,
        request: JobUpdate,
        handle: UpdatingJob,
        shadow: ShadowOptions | None,
    ) -> None:
        try:
            if shadow is not None and not self._shadows.complete_shadow_run(
                job, reporter, old, request, shadow
            ):
                return
            old.running.add_request(UpdateRequested(request))
            answer = wait_for_answer(old.running, request.answer)
            self._handle_answer(job, reporter, old, request, handle, answer or _INTERRUPTED)
        except Exception as error:
            _LOGGER.exception("job %s: the update failed", job.job_id)
            reporter.report_message(
                Importance.ERROR, f"the server failed during the update: {error}"
            )
        finally:
            self._threads.discard(threading.current_thread())

    def _handle_answer(
        self,
        job: JobSpec,
        reporter: JobReporter,
        old: StartedJob,
        request: JobUpdate,
        handle: UpdatingJob,
        answer: UpdateResult,
    ) -> None:
        name = old.spec.job_id
        match answer.outcome:
            case UpdateOutcome.REPLACED:
                assert answer.ledger is not None
                running = self._launch(job, reporter, answer.ledger)
                if running is not None:
                    handle.attach_job(running)
            case UpdateOutcome.CHECKED if not answer.report.is_refused_permanently:
                reporter.report_messages(make_update_message_lines(answer.report))
                reporter.report_state(JobState.DONE)
            case UpdateOutcome.CHECKED | UpdateOutcome.REFUSED:
                reporter.report_messages(make_update_message_lines(answer.report))
                text = describe_update_refusal(name, answer)
                reporter.report_state(JobState.FAILED, text)
                if not request.is_check:
                    old.reporter.report_message(
                        Importance.WARNING, f"job {job.job_id} didn't replace this job: {text}"
                    )
            case UpdateOutcome.INTERRUPTED if request.withdrawn.is_set():
                reporter.report_state(JobState.CANCELLED)
            case UpdateOutcome.INTERRUPTED:
                reporter.report_state(JobState.FAILED, describe_update_refusal(name, answer))
            case UpdateOutcome.UNKNOWN:
                _LOGGER.warning("job %s is left to the next server", job.job_id)


def end_replaced_job(reporter: JobReporter, successor: str, jobs: Iterable[JobInfo]) -> JobHandle:
    """Reports that a job of an earlier server has been replaced, and returns a handle that does nothing."""
    options = next((one.options for one in jobs if one.job_id == successor), {})
    update = parse_update_options(options) or UpdateOptions(keep_seconds=0.0)
    reporter.record_succession(
        Succession(
            successor=successor, program_kept_until=_compute_retention_end(update.keep_seconds)
        )
    )
    reporter.report_state(JobState.UPDATED)
    return NeverStartedJob()


def _record_report(
    old: StartedJob, job_id: str, reporter: JobReporter, report: UpdateReport
) -> None:
    old.reporter.record_succession(Succession(compared=job_id, report=report))
    reporter.record_succession(Succession(compared=old.spec.job_id, report=report))


def _compute_retention_end(keep_seconds: float) -> float:
    """Returns the time until which the server retains the program of a job that is replaced now; 0
    if the server doesn't retain the program.
    """
    return time.time() + keep_seconds if keep_seconds else 0.0


def _record_replacement(
    old: StartedJob,
    job_id: str,
    reporter: JobReporter,
    keep_seconds: float,
    report: UpdateReport,
) -> None:
    reporter.report_messages(make_update_message_lines(report))
    reporter.report_message(Importance.BASIC, f"the job replaces job {old.spec.job_id}")
    reporter.record_succession(Succession(predecessor=old.spec.job_id))
    old.reporter.report_messages(make_update_message_lines(report))
    old.reporter.report_message(Importance.BASIC, f"job {job_id} replaces this job")
    old.reporter.record_succession(
        Succession(successor=job_id, program_kept_until=_compute_retention_end(keep_seconds))
    )
