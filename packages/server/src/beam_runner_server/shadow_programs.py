"""Programs of a shadow run: the running program and the new program, each on a copy of one state."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

import attrs
from beam_runner_driver.job.job import RunningJob
from beam_runner_driver.ledger.journal_codec import DecodedJournal
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.updates.savepoint_files import StoredSavepoint, fetch_data_files
from beam_runner_driver.updates.shadow_reports import ProgramResult
from beam_runner_driver.updates.shadow_totals import compute_step_totals
from beam_runner_driver.updates.succession import (
    SuccessorJob,
    compare_with_ledger,
    make_next_ledger,
)
from beam_runner_jobservices.errors import JobRejected
from beam_runner_jobservices.ports import JobReporter
from beam_runner_model.jobs import JobSpec, JobState
from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP
from beam_runner_model.updates import UpdateInstructions
from beam_runner_planner.errors import InvalidPipeline
from beam_runner_planner.shadow_pipelines import make_shadow_pipeline
from beam_runner_runtime.option_values import remove_options
from beam_runner_runtime.quarantine_options import QUARANTINE_OPTIONS
from beam_runner_runtime.shadow_digest import make_shadow_digest_payload
from beam_runner_runtime.update_options import ShadowOptions, remove_update_options
from beam_runner_storage.journal.store import JournalStore

from beam_runner_server.captures import capture_running_job
from beam_runner_server.job_folders import JobFolders
from beam_runner_server.job_plans import JobPlanner
from beam_runner_server.shadow_reporter import ShadowReporter

_END_SECONDS = 60.0
_LOGGER = logging.getLogger(__name__)

LaunchProgram: TypeAlias = Callable[[JobSpec, JobReporter, JobLedger], RunningJob | None]
"""Function that starts a program with a ledger (committed state). Returns None if the server stops.
"""


@attrs.define(eq=False)
class ShadowProgram:
    """Program of a shadow run.

    Attributes:
        spec: specification, with a pipeline without effects outside of the runner.
        next_job: plan and settings.
        steps: full names of the replaced steps.
        reporter: receiver of its reports.
        running: the running program; None before the start.
    """

    spec: JobSpec
    next_job: SuccessorJob
    steps: tuple[str, ...]
    reporter: ShadowReporter
    running: RunningJob | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the started program has ended, or the server stops."""
        return self.running is None or self.running.wait_for_end(0)

    @property
    def is_suspended(self) -> bool:
        """Whether the program has stopped without an end, because the server stops."""
        return self.has_ended and self.reporter.end is None

    def read_result(self) -> ProgramResult:
        """Returns the committed result up to now."""
        assert self.running is not None
        plan = self.next_job.plan
        contents = capture_running_job(self.running)
        if contents is None:
            is_complete = self.reporter.end in (JobState.DONE, JobState.DRAINED)
            mark = MAX_TIMESTAMP if is_complete else MIN_TIMESTAMP
            metrics = self.running.get_metrics().committed
            totals = compute_step_totals(plan, metrics, dict.fromkeys(plan.stages, mark))
            return ProgramResult(totals, self.reporter.reason)
        contents.release_files()
        ledger = JobLedger.from_state(DecodedJournal(contents.snapshot).ledger)
        watermarks = {one.stage: one.output_watermark for one in ledger.report_stages()}
        totals = compute_step_totals(plan, ledger.metrics.infos(), watermarks)
        failures = [retry.last.cause for retry in ledger.list_retried_bundles()]
        return ProgramResult(totals, failures[0] if failures else "")


@attrs.frozen
class ShadowProgramManager:
    """Maker of the programs of shadow runs.

    Attributes:
        store: store of the journals.
        folders: locations of the job files.
        planner: planner of new jobs.
        launch: starts a program.
    """

    store: JournalStore
    folders: JobFolders
    planner: JobPlanner
    launch: LaunchProgram

    def plan_program(
        self,
        spec: JobSpec,
        job_id: str,
        options: ShadowOptions,
        wishes: UpdateInstructions,
        start: int,
        reporter: JobReporter | None,
    ) -> ShadowProgram:
        """Returns a program without effects outside of the runner.

        Args:
            spec: specification of the job whose program runs.
            job_id: ID of the program, for its folder and its journal.
            options: options of the shadow run.
            wishes: consent for the comparison with the running job.
            start: start of the shadow run (ms since 1970).
            reporter: receiver of the messages; None to discard them.

        Raises:
            JobRejected: a shadow run of the pipeline isn't possible.
        """
        digest = make_shadow_digest_payload(start)
        try:
            made = make_shadow_pipeline(spec.pipeline, options.skip, options.reread, digest)
        except InvalidPipeline as error:
            raise JobRejected(str(error), unsupported=False) from error
        shadow = attrs.evolve(
            spec,
            job_id=job_id,
            pipeline=made.pipeline,
            options=remove_update_options(spec.options),
            resumed=False,
        )
        # A quarantine decides where stages begin, so the plan needs the options of the quarantine.
        planned = self.planner.plan_job(shadow)
        quarantine = (option.name for option in QUARANTINE_OPTIONS)
        shadow = attrs.evolve(shadow, options=remove_options(shadow.options, quarantine))
        self.planner.check_tables(planned.plan)
        wishes = attrs.evolve(wishes, drop=wishes.drop.union(made.steps))
        next_job = SuccessorJob(planned.plan, planned.tuning, wishes, planned.options.key_shards)
        return ShadowProgram(shadow, next_job, made.steps, ShadowReporter(reporter))

    def start_program(self, program: ShadowProgram, savepoint: StoredSavepoint) -> None:
        """Starts a program from a copy of the running job's state.

        Raises:
            TransferRefused: the program can't continue with the state.
            StorageError: the files can't be copied.
        """
        job_id = program.spec.job_id
        comparison = compare_with_ledger(savepoint.ledger, program.next_job)
        ledger = make_next_ledger(
            savepoint.ledger, program.next_job, comparison.correspondence, savepoint.rename_file
        )
        files = self.folders.get_job_folder(job_id)
        try:
            fetch_data_files(savepoint, ledger.list_needed_files(), files.spec)
        finally:
            files.close()
        self.store.get_journal(job_id).store_snapshot(ledger.encode_snapshot())
        program.running = self.launch(program.spec, program.reporter, ledger)

    def end_program(self, program: ShadowProgram) -> None:
        """Ends one program of a shadow run, and deletes the program's state. The next server
        deletes the state of a suspended program.
        """
        job_id = program.spec.job_id
        if program.running is not None:
            program.running.cancel()
            if not program.running.wait_for_end(_END_SECONDS):
                _LOGGER.warning("the program %s of a shadow run doesn't end", job_id)
            return
        self.store.get_journal(job_id).delete_journal()
        self.folders.remove_job_files(job_id)
