"""The executor behind the Job API, which accepts new jobs and resumes jobs of an earlier server."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import attrs
from beam_runner_engine.scheduler.events import Start
from beam_runner_engine.scheduler.overtaking import WatermarkChecker
from beam_runner_engine.scheduler.specs import Limits
from beam_runner_jobservices.errors import InvalidRequest, JobRejected
from beam_runner_jobservices.ports import JobHandle, JobReporter
from beam_runner_jobservices.wire.pipelines import check_pipeline
from beam_runner_model.jobs import Importance, JobSpec
from beam_runner_planner.errors import InvalidPipeline, UnsupportedPipeline
from beam_runner_planner.file_steps import find_file_steps
from beam_runner_planner.ignored_options import describe_ignored_options
from beam_runner_planner.plan import JobPlan
from beam_runner_planner.translate import plan_job
from beam_runner_runtime.bundles.preflight import BundleRequirements
from beam_runner_runtime.channel.endpoints import KNOCK
from beam_runner_runtime.channel.identity import make_identity
from beam_runner_runtime.channel.place import ChannelAddress
from beam_runner_runtime.channel.server import ChannelServer
from beam_runner_runtime.clock import ProcessingClock
from beam_runner_runtime.driver.job import RunningJob
from beam_runner_runtime.driver.job_folder import JobFolder
from beam_runner_runtime.driver.ledger import JobLedger
from beam_runner_runtime.driver.ports import Placement
from beam_runner_runtime.driver.recovery import recover_ledger
from beam_runner_runtime.driver.scheduling import make_root_outputs
from beam_runner_runtime.driver.settings import JobSettings
from beam_runner_runtime.driver.slots import ClusterSlots, JobSlots
from beam_runner_runtime.driver.tuning import RetrySettings, choose_job_tuning, set_retry_limits
from beam_runner_runtime.job_options import BulkMode, InvalidOptionError, parse_runner_options
from beam_runner_runtime.shutdown.limits import LIMITS
from beam_runner_runtime.tuning import TUNING
from beam_runner_storage.durable.folders import sync_folder
from beam_runner_storage.journal.codec import RecordFormatError
from beam_runner_storage.journal.journal import Journal
from beam_runner_storage.journal.store import JournalStore

from beam_runner_server.crash_loop_guard import count_job_start, report_unavailable_storage
from beam_runner_server.empty_reads import EmptyReadsReporter
from beam_runner_server.job_folders import JobFolders
from beam_runner_server.loopback_check import find_loopback_address
from beam_runner_server.relative_paths import describe_relative_paths, find_reachable_folder

_PIECE = 1 << 20
_LOGGER = logging.getLogger(__name__)


@attrs.frozen
class ExecutorSettings:
    """Settings with which a server runs jobs.

    Attributes:
        folders: locations of the job files.
        channel: address at which worker processes reach the server.
        retries: retry limits of failed bundles, for jobs without an option for it.
        hides_elements: whether errors omit the element that user code processed.
        bulk: whether bounded work runs as sections in separate Spark jobs, for jobs without an
            option for it.
        on_cluster: whether worker processes run on other machines than the server.
        checks_watermarks: whether a job fails if a watermark overtakes data.
        keep_seconds: retention time in seconds for the state of a failed or cancelled stream; 0
            retains no state.
    """

    folders: JobFolders
    channel: ChannelAddress = attrs.field(factory=ChannelAddress)
    retries: RetrySettings = attrs.field(factory=RetrySettings)
    hides_elements: bool = False
    bulk: BulkMode = BulkMode.AUTO
    on_cluster: bool = False
    checks_watermarks: bool = False
    keep_seconds: float = 0.0


class PlacedJobExecutor:
    """Executor that runs jobs on worker processes (``beam_runner_jobservices.ports.JobExecutor``).

    Args:
        placement: the started placement of the workers.
        store: the store of the jobs' journals.
        settings: the settings for jobs.

    Raises:
        ChannelError: the server can't listen for worker processes.
    """

    def __init__(
        self,
        placement: Placement,
        store: JournalStore,
        settings: ExecutorSettings,
    ) -> None:
        self._placement = placement
        self._store = store
        self._settings = settings
        self._elsewhere: frozenset[str] = frozenset()
        self._slots = ClusterSlots(placement.slots, lambda: placement.cores)
        self._lock = threading.Lock()
        self._jobs: dict[str, RunningJob] = {}
        self._channel = ChannelServer(
            settings.channel,
            self._jobs.get,
            placement.order,
            None if settings.channel.is_private else make_identity(),
        )
        self._channel.start()
        placement.attach(self._channel.endpoints)

    def __call__(self, job: JobSpec, reporter: JobReporter) -> JobHandle:
        """Starts a job, or resumes a job of an earlier server.

        Raises:
            JobRejected: the pipeline is malformed or uses an unsupported feature, committed data of
                the job is lost, or two servers have crashed while they started the job.
            Unavailable: the job belongs to an earlier server, and a disk or a store is unavailable.
                The job can be started later.
        """
        with (
            report_unavailable_storage(self._settings.folders.folder)
            if job.resumed
            else nullcontext()
        ):
            return self._start_job(job, reporter)

    def _start_job(self, job: JobSpec, reporter: JobReporter) -> JobHandle:
        unreachable = "" if job.resumed else find_loopback_address(job, self._elsewhere)
        if unreachable:
            raise JobRejected(unreachable, unsupported=False)
        journal = self._store.get_journal(job.job_id)
        files = self._settings.folders.folder_of_job(job.job_id)
        on_cluster = self._settings.on_cluster
        client_folder = find_reachable_folder(job, on_cluster=on_cluster)
        with count_job_start(files.folder):
            settings = self._job_settings(files, client_folder)
            ledger = self._open_ledger(job, journal, files)
        self._check_tables(ledger.plan)
        if settings.checks_watermarks:
            ledger.watch = WatermarkChecker()
        if files.spec.durable:
            sync_folder(files.folder.parent)
        unused = "" if job.resumed else describe_ignored_options(job)
        if unused:
            reporter.message(Importance.WARNING, unused)
        paths = {a.sha256: a.path for artifacts in job.artifacts.values() for a in artifacts}
        steps = find_file_steps(job.pipeline)
        if not client_folder:
            misplaced = describe_relative_paths(job, steps, on_cluster=on_cluster)
            if misplaced:
                reporter.message(Importance.WARNING, misplaced)
        reads = [step for step in steps if not step.is_write]
        running = RunningJob(
            ledger,
            journal,
            EmptyReadsReporter(
                reporter, reads, lambda: running.metrics(), client_folder or os.getcwd()
            ),
            self._placement.job(job.job_id, job.job_name),
            JobSlots(self._slots, job.job_id),
            settings,
            lambda sha256: _read_file(Path(paths[sha256])),
            self._remove_ended_job,
        )
        with self._lock:
            self._jobs[job.job_id] = running
        running.start()
        return running

    def check_workers(self) -> None:
        """Runs a check of everything that bundles need on the machines of the workers.

        Raises:
            Unavailable: a check failed; the text says where, what, and what to do.
        """
        needs = BundleRequirements(
            self._channel.endpoints.make_endpoint(KNOCK), self._settings.folders.spec
        )
        self._elsewhere = self._placement.try_out(needs) - {socket.gethostname()}

    def close(self, *, suspend: bool) -> None:
        """Ends the work on all jobs, waits for that within the limit, and closes the channel.

        Args:
            suspend: whether to leave the jobs to another server with the same store; otherwise they
                are cancelled.
        """
        with self._lock:
            jobs = list(self._jobs.values())
        for job in jobs:
            if suspend:
                job.suspend()
            else:
                job.cancel()
        for job in jobs:
            job.wait_for_end(LIMITS.server_jobs_seconds)
        self._placement.stand_down()
        self._channel.stop()

    def _job_settings(self, files: JobFolder, client_folder: str) -> JobSettings:
        return JobSettings(
            files,
            self._store.epoch,
            self._placement.cores,
            self._placement.cores * TUNING.lanes_per_core,
            # The loop inside a task stores state in files, so it needs a store that accepts files.
            loop_bytes=TUNING.loop_bytes if files.spec.accepts_files else -1,
            resumable=self._store.durable,
            hides_elements=self._settings.hides_elements,
            checks_watermarks=self._settings.checks_watermarks,
            keep_seconds=self._settings.keep_seconds,
            client_folder=client_folder,
        )

    def _open_ledger(self, job: JobSpec, journal: Journal, files: JobFolder) -> JobLedger:
        """Returns the recovered ledger of a job of an earlier server, or the ledger of a new job."""
        if journal.exists:
            try:
                ledger = recover_ledger(journal, lambda kept: self._retry_limits(kept, job))
            except RecordFormatError as error:
                raise JobRejected(
                    "Can't resume the job: another version of this program wrote the"
                    f" commits of the job, and this version can't read them ({error})."
                    " Run the job again, or finish such jobs with the version that"
                    " started them"
                ) from error
            files.delete_leftovers(ledger.list_needed_files())
            _LOGGER.info("job %s resumes from its last commit", job.job_id)
        elif job.resumed:
            raise JobRejected(
                "Can't resume the job: its journal, with all commits of the previous"
                " server, is missing"
            )
        else:
            ledger = self._begin_job(job, self._plan_job(job))
            journal.store_snapshot(ledger.encode_snapshot())
        return ledger

    def _retry_limits(self, ledger: JobLedger, job: JobSpec) -> Limits:
        """Returns this version's retry limits for a job of another version."""
        wishes = parse_runner_options(job.options)
        return set_retry_limits(ledger.limits, ledger.plan, self._settings.retries, wishes)

    def _check_tables(self, plan: JobPlan) -> None:
        tables = [s.spec.name for s in plan.stages.values() if s.table is not None]
        if tables and not self._placement.has_tables:
            raise JobRejected(
                f"the transform {tables[0]!r} needs Spark to read or write a table, and"
                " this server runs jobs without Spark: submit the job to a server with"
                " Spark"
            )

    def _plan_job(self, job: JobSpec) -> JobPlan:
        try:
            # The Prepare call has checked the pipeline, perhaps in an earlier version of the
            # server.
            check_pipeline(job.pipeline)
            return plan_job(job)
        except InvalidRequest as error:
            raise JobRejected(str(error), unsupported=False) from error
        except InvalidPipeline as error:
            raise JobRejected(str(error), unsupported=False) from error
        except UnsupportedPipeline as error:
            raise JobRejected(str(error)) from error

    def _begin_job(self, job: JobSpec, plan: JobPlan) -> JobLedger:
        settings = self._settings
        try:
            wishes = parse_runner_options(job.options)
        except InvalidOptionError as error:
            raise JobRejected(str(error), unsupported=False) from error
        tuning = choose_job_tuning(
            plan,
            self._placement.cores,
            settings.retries,
            wishes,
            settings.bulk,
            shares_data=settings.folders.spec.accepts_files,
            on_cluster=settings.on_cluster,
        )
        ledger = JobLedger(plan, tuning.shards, tuning.limits, tuning.policy, tuning.section_policy)
        # A scripted clock starts at 0, because tests set their timers by it.
        start = 0 if plan.sets_clock else ProcessingClock().now()
        ledger.apply_entry(Start(start, make_root_outputs(plan)))
        return ledger

    def _remove_ended_job(self, job: RunningJob) -> None:
        with self._lock:
            self._jobs.pop(job.job_id, None)
        self._placement.job_ended()


def _read_file(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece
