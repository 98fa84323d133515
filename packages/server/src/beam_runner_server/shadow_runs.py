"""Shadow runs before updates: the running program and the new program process copies of one state.

The running job only gives its committed state, and runs on. Both programs run without the steps that
have effects outside of the runner, and the inputs of these steps are compared.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

import attrs
from beam_runner_driver.ledger.journal_codec import DecodedJournal
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.updates.job_update import JobUpdate
from beam_runner_driver.updates.savepoint_files import (
    SavepointContents,
    read_savepoint,
    write_savepoint,
)
from beam_runner_driver.updates.shadow_reports import make_shadow_report
from beam_runner_driver.updates.succession import compare_with_ledger
from beam_runner_engine.scheduler.refusals import TransferRefused
from beam_runner_jobservices.errors import JobRejected, NotReady
from beam_runner_jobservices.ports import JobReporter
from beam_runner_model.jobs import Importance, JobSpec, JobState, MessageLine
from beam_runner_model.savepoints import Savepoint
from beam_runner_model.shadow_rendering import render_shadow_report
from beam_runner_model.shadows import ShadowReport
from beam_runner_model.successions import Succession
from beam_runner_model.updates import UpdateInstructions
from beam_runner_planner.errors import InvalidPipeline
from beam_runner_planner.step_names import check_step_names
from beam_runner_runtime.update_options import SHADOW_REREAD, SHADOW_SKIP, ShadowOptions
from beam_runner_storage.errors import StorageError
from beam_runner_storage.removal import remove_tree
from beam_runner_storage.unavailable import ExternalSystemUnavailable

from beam_runner_server.captures import capture_running_job
from beam_runner_server.shadow_programs import ShadowProgram, ShadowProgramManager
from beam_runner_server.started_jobs import StartedJob
from beam_runner_server.update_messages import list_update_refusals

_LOOK_SECONDS = 0.25
_ACCEPT_SECONDS = 10.0
_RETRY_SECONDS = 1.0
_LOGGER = logging.getLogger(__name__)


class ShadowRunner:
    """Runner of shadow runs. Thread-safe.

    Args:
        programs: maker of the programs.
    """

    def __init__(self, programs: ShadowProgramManager) -> None:
        self._programs = programs

    def complete_shadow_run(
        self,
        job: JobSpec,
        reporter: JobReporter,
        old: StartedJob,
        request: JobUpdate,
        options: ShadowOptions,
    ) -> bool:
        """Completes a shadow run, and reports the result of the run.

        Args:
            job: the new job.
            reporter: reporter of the new job.
            old: the running job.
            request: request to replace the running job.
            options: options of the shadow run.

        Returns:
            Whether the new job can now replace the running job. Otherwise, the new job has ended, or is
            left to the next server.
        """
        report, reason = None, ""
        try:
            report = self._run_programs(job, reporter, old, request, options)
        except (
            JobRejected,
            NotReady,
            StorageError,
            ExternalSystemUnavailable,
            TransferRefused,
        ) as error:
            reason = f"the shadow run isn't possible: {error}"
        except Exception as error:
            _LOGGER.exception("the shadow run of job %s failed", job.job_id)
            reason = f"the server failed during the shadow run: {error!r}"
        if request.withdrawn.is_set():
            reporter.report_state(JobState.CANCELLED)
            return False
        if reason:
            reporter.report_state(JobState.FAILED, reason)
            return False
        if report is None:
            _LOGGER.warning("the shadow run of job %s is left to the next server", job.job_id)
            return False
        return _report_result(reporter, report, options)

    def _run_programs(
        self,
        job: JobSpec,
        reporter: JobReporter,
        old: StartedJob,
        request: JobUpdate,
        options: ShadowOptions,
    ) -> ShadowReport | None:
        """Runs the old and the new program, and returns the comparison of their output; None if the
        server stops or the client cancels.
        """
        before, after = pair = self._plan_programs(job, reporter, old, request, options)
        try:
            self._start_programs(pair, old, request)
            reporter.report_message(
                Importance.BASIC,
                f"the shadow run with job {old.spec.job_id} has begun, and takes {options.seconds:g} s",
            )
            begun = time.monotonic()
            _wait_for_programs(pair, begun + options.seconds, request)
            if request.withdrawn.is_set() or any(one.is_suspended for one in pair):
                return None
            seconds = time.monotonic() - begun
            old_result, new_result = before.read_result(), after.read_result()
        finally:
            for one in pair:
                self._programs.end_program(one)
        mapping = request.job.wishes.mapping
        report = make_shadow_report(
            old_result, new_result, before.steps, after.steps, mapping, seconds
        )
        for owner in (reporter, old.reporter):
            owner.record_succession(Succession(shadow=report))
        return report

    def _plan_programs(
        self,
        job: JobSpec,
        reporter: JobReporter,
        old: StartedJob,
        request: JobUpdate,
        options: ShadowOptions,
    ) -> tuple[ShadowProgram, ShadowProgram]:
        try:
            pipelines = (old.spec.pipeline, job.pipeline)
            check_step_names(pipelines, options.skip, SHADOW_SKIP.name)
            check_step_names(pipelines, options.reread, SHADOW_REREAD.name)
        except InvalidPipeline as error:
            raise JobRejected(str(error), unsupported=False) from error
        start = int(time.time() * 1000)
        before = self._programs.plan_program(
            old.spec, f"{job.job_id}-shadow-old", options, UpdateInstructions(), start, None
        )
        # The copy of the running program uses the running program's number of key shards.
        before.next_job = attrs.evolve(before.next_job, key_shards=None)
        wishes = request.job.wishes
        wishes = attrs.evolve(wishes, drop=wishes.drop.union(before.steps))
        after = self._programs.plan_program(
            job, f"{job.job_id}-shadow-new", options, wishes, start, reporter
        )
        return before, after

    def _start_programs(
        self, pair: Sequence[ShadowProgram], old: StartedJob, request: JobUpdate
    ) -> None:
        """Copies the state of the running job, and starts the old and the new program with this
        state.
        """
        folders, store = self._programs.folders, self._programs.store
        contents = _capture_acceptable_state(pair, old, request)
        copy = folders.folder / f"{request.job_id}-shadow-copy"
        files = folders.get_job_folder(store.find_lineage(old.spec.job_id).owner)
        about = Savepoint(copy.as_uri(), old.spec.job_id, old.spec.job_name, time.time())
        try:
            try:
                write_savepoint(contents, files.spec, about)
            finally:
                contents.release_files()
            savepoint = read_savepoint(about.url)
            for one in pair:
                self._programs.start_program(one, savepoint)
        finally:
            files.close()
            remove_tree(copy)


def _capture_acceptable_state(
    pair: Sequence[ShadowProgram], old: StartedJob, request: JobUpdate
) -> SavepointContents:
    """Returns the state of the running job, at a moment when the old and the new program can
    continue with this state.

    Raises:
        JobRejected: a program can't continue with the state, or the running job ended.
    """
    deadline = time.monotonic() + _ACCEPT_SECONDS
    while True:
        contents = capture_running_job(old.running)
        if contents is None:
            raise JobRejected(f"job {old.spec.job_id} ended", unsupported=False)
        ledger = JobLedger.from_state(DecodedJournal(contents.snapshot).ledger)
        jobs = (request.job, *(one.next_job for one in pair))
        reports = [compare_with_ledger(ledger, one).report for one in jobs]
        request.on_report(reports[0])
        refused = [one for one in reports if one.is_refused]
        if not refused:
            return contents
        contents.release_files()
        is_final = any(one.is_refused_permanently for one in refused)
        if is_final or time.monotonic() > deadline or request.withdrawn.wait(_RETRY_SECONDS):
            raise JobRejected(list_update_refusals(refused[0]), unsupported=False)


def _wait_for_programs(pair: Sequence[ShadowProgram], deadline: float, request: JobUpdate) -> None:
    """Waits for the deadline, the end of the old and the new program, a failure, or a cancellation."""
    while time.monotonic() < deadline and not request.withdrawn.wait(_LOOK_SECONDS):
        ended = [one for one in pair if one.has_ended]
        if len(ended) == len(pair) or any(one.reporter.end is not JobState.DONE for one in ended):
            return


def _report_result(reporter: JobReporter, report: ShadowReport, options: ShadowOptions) -> bool:
    """Reports the result to the client; returns whether the update follows."""
    importance = Importance.BASIC if report.is_equal else Importance.WARNING
    lines = list(render_shadow_report(report))
    reporter.report_messages([MessageLine(importance, line) for line in lines])
    if report.is_equal and options.is_followed_by_update:
        return True
    if report.is_equal:
        reporter.report_state(JobState.DONE)
    else:
        unequal = "the shadow run found differences, an error, or nothing to compare"
        reporter.report_state(
            JobState.FAILED, f"{unequal}: {'; '.join(lines) or 'no step has effects'}"
        )
    return False
