"""Executor of jobs: starts new jobs that the Job API receives, and resumes jobs of an earlier server."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path

import attrs
from beam_runner_driver.job.job import RunningJob
from beam_runner_driver.lanes.slots import ClusterSlots, JobSlots
from beam_runner_driver.lanes.user_cores import UserCoreShares
from beam_runner_driver.ledger.job_folder import JobFolder
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.recovery import recover_ledger
from beam_runner_driver.ledger.settings import JobSettings
from beam_runner_driver.ports import Placement
from beam_runner_engine.scheduler.overtaking import WatermarkChecker
from beam_runner_jobservices.errors import JobRejected
from beam_runner_jobservices.ports import JobHandle, JobReporter
from beam_runner_model.jobs import Importance, JobInfo, JobSpec, JobState
from beam_runner_model.replays import ReplayReport
from beam_runner_model.savepoints import Savepoint
from beam_runner_model.successions import Succession
from beam_runner_planner.file_steps import find_file_steps
from beam_runner_planner.ignored_options import describe_ignored_options
from beam_runner_planner.regrouped_windows import describe_regrouped_windows
from beam_runner_runtime.bundles.preflight import BundleRequirements
from beam_runner_runtime.channel.endpoints import KNOCK
from beam_runner_runtime.channel.identity import generate_identity
from beam_runner_runtime.channel.server import ChannelServer
from beam_runner_runtime.job_options import parse_runner_options
from beam_runner_runtime.shutdown.limits import LIMITS
from beam_runner_runtime.tuning import TUNING
from beam_runner_runtime.update_options import parse_update_options
from beam_runner_storage.durable.folders import sync_folder
from beam_runner_storage.journal.codec import RecordFormatError
from beam_runner_storage.journal.journal import Journal
from beam_runner_storage.journal.store import JournalStore

from beam_runner_server.crash_loop_guard import count_job_start, report_unavailable_storage
from beam_runner_server.empty_reads import EmptyReadsReporter
from beam_runner_server.executor_settings import ExecutorSettings
from beam_runner_server.job_plans import JobPlanner
from beam_runner_server.loopback_check import explain_unreachable_loopback
from beam_runner_server.option_checks import parse_options
from beam_runner_server.quarantine_check import make_quarantine_settings
from beam_runner_server.quarantine_replay import replay_quarantine
from beam_runner_server.relative_paths import describe_relative_paths, find_reachable_folder
from beam_runner_server.savepoints import SavepointManager
from beam_runner_server.shadow_programs import ShadowProgramManager
from beam_runner_server.shadow_runs import ShadowRunner
from beam_runner_server.started_jobs import StartedJob
from beam_runner_server.updates import JobUpdateManager, end_replaced_job
from beam_runner_server.waiting_jobs import NeverStartedJob

_PIECE = 1 << 20
_LOGGER = logging.getLogger(__name__)


class PlacedJobExecutor:
    """Executor that runs jobs on worker processes (``beam_runner_jobservices.ports.JobExecutor``).

    Args:
        placement: system that starts and stops the worker processes, after its start.
        find_core_quota: returns the maximum number of cores of a user; None without a quota.
        list_jobs: returns all jobs of the server, from which an update selects the job to replace.

    Raises:
        ChannelError: the server can't listen for worker processes.
    """

    def __init__(
        self,
        placement: Placement,
        store: JournalStore,
        settings: ExecutorSettings,
        find_core_quota: Callable[[str], int | None] = lambda user: None,
        list_jobs: Callable[[], Iterable[JobInfo]] = tuple,
    ) -> None:
        self._placement = placement
        self._store = store
        self._settings = settings
        self._list_jobs = list_jobs
        self._elsewhere: frozenset[str] = frozenset()
        self._slots = ClusterSlots(
            placement.slots, lambda: placement.cores, UserCoreShares(find_core_quota)
        )
        self._lock = threading.Lock()
        self._jobs: dict[str, RunningJob] = {}
        self._started: dict[str, StartedJob] = {}
        self._is_closing = False
        self._planner = JobPlanner(placement, settings)
        shadows = ShadowRunner(
            ShadowProgramManager(store, settings.folders, self._planner, self._launch_shadow)
        )
        self._updates = JobUpdateManager(
            store, self._planner, list_jobs, self._started.get, self._launch_next_job, shadows
        )
        self._savepoints = SavepointManager(
            store, settings.folders, self._planner, self._started.get
        )
        self._channel = ChannelServer(
            settings.channel,
            self._jobs.get,
            placement.get_standby_order,
            None if settings.channel.is_private else generate_identity(),
        )
        self._channel.start()
        placement.set_endpoints(self._channel.endpoints)

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
        unreachable = "" if job.resumed else explain_unreachable_loopback(job, self._elsewhere)
        if unreachable:
            raise JobRejected(unreachable, unsupported=False)
        if successor := self._store.find_successor(job.job_id):
            return end_replaced_job(reporter, successor, self._list_jobs())
        journal = self._store.get_journal(job.job_id)
        lineage = self._store.find_lineage(job.job_id)
        if lineage.predecessor:
            reporter.record_succession(Succession(predecessor=lineage.predecessor))
        update = parse_options(job, parse_update_options)
        if update is not None and journal.exists:
            update = None  # The job has replaced the running job, or started from the savepoint.
        files = self._settings.folders.get_job_folder(lineage.owner)
        if update is not None and not update.savepoint:
            # The job is an update of a running job, possibly one that an earlier server hasn't
            # finished. The new job uses the folder of the running job.
            files.close()
            with count_job_start(files.folder, removes_folder=True):
                return self._updates.begin_update(job, reporter, update)
        with count_job_start(files.folder):
            if update is not None:
                following = self._savepoints.start_job(job, reporter, update, files)
                if following is None:
                    files.close()
                    reporter.report_state(JobState.DONE)
                    return NeverStartedJob()
                return self._launch_job(job, reporter, following, files)
            ledger = self._open_ledger(job, journal, files)
        return self._launch_job(job, reporter, ledger, files)

    def _launch_next_job(
        self, job: JobSpec, reporter: JobReporter, ledger: JobLedger
    ) -> RunningJob | None:
        """Starts a job that has replaced another job. Returns None if the server is stopping."""
        owner = self._store.find_lineage(job.job_id).owner
        files = self._settings.folders.get_job_folder(owner)
        return None if self._is_closing else self._launch_job(job, reporter, ledger, files)

    def _launch_shadow(
        self, job: JobSpec, reporter: JobReporter, ledger: JobLedger
    ) -> RunningJob | None:
        """Starts a program of a shadow run, whose state has no later use; None if the server stops."""
        files = self._settings.folders.get_job_folder(job.job_id)
        if self._is_closing:
            return None
        return self._launch_job(job, reporter, ledger, files, is_shadow=True)

    def _launch_job(
        self,
        job: JobSpec,
        reporter: JobReporter,
        ledger: JobLedger,
        files: JobFolder,
        *,
        is_shadow: bool = False,
    ) -> RunningJob:
        on_cluster = self._settings.on_cluster
        client_folder = find_reachable_folder(job, on_cluster=on_cluster)
        settings = self._make_job_settings(files, job, client_folder)
        if is_shadow:
            settings = attrs.evolve(settings, keep_seconds=0.0, is_shadow=True)
        self._planner.check_tables(ledger.plan)
        if settings.checks_watermarks:
            ledger.watch = WatermarkChecker()
        if files.spec.durable:
            sync_folder(files.folder.parent)
        if not job.resumed:
            for text in (describe_ignored_options(job), describe_regrouped_windows(job.pipeline)):
                if text:
                    reporter.report_message(Importance.WARNING, text)
        paths = {a.sha256: a.path for artifacts in job.artifacts.values() for a in artifacts}
        steps = find_file_steps(job.pipeline)
        if not client_folder:
            misplaced = describe_relative_paths(job, steps, on_cluster=on_cluster)
            if misplaced:
                reporter.report_message(Importance.WARNING, misplaced)
        reads = [step for step in steps if not step.is_write]
        running = RunningJob(
            ledger,
            self._store.get_journal(job.job_id),
            EmptyReadsReporter(
                reporter, reads, lambda: running.get_metrics(), client_folder or os.getcwd()
            ),
            self._placement.create_job_placement(job.job_id, job.job_name),
            JobSlots(self._slots, job.job_id, job.user),
            settings,
            lambda sha256: _read_file(Path(paths[sha256])),
            self._remove_ended_job,
        )
        with self._lock:
            self._jobs[job.job_id] = running
            self._started[job.job_id] = StartedJob(job, reporter, running)
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
        self._elsewhere = self._placement.check_bundle_requirements(needs) - {socket.gethostname()}

    def make_savepoint(self, job: JobInfo, url: str) -> Savepoint:
        """Copies the committed state of a stream to a folder or store; see `SavepointManager`."""
        return self._savepoints.make_savepoint(job, url)

    def replay_quarantine(self, job: JobInfo, url: str, expired: bool) -> ReplayReport:
        """Feeds quarantined elements (elements that always failed) back into a running job; see
        `quarantine_replay`.
        """
        return replay_quarantine(job, self._started.get(job.job_id), url, expired=expired)

    def close(self, *, suspend: bool) -> None:
        """Ends the work on all jobs, waits up to a time limit for the end of this work, and
        disconnects all worker processes.

        Args:
            suspend: whether another server with the same state will resume the jobs; otherwise the
                jobs are cancelled.
        """
        with self._lock:
            self._is_closing = True
            jobs = list(self._jobs.values())
        for job in jobs:
            if suspend:
                job.suspend()
            else:
                job.cancel()
        for job in jobs:
            job.wait_for_end(LIMITS.server_jobs_seconds)
        self._updates.wait_for_end(LIMITS.job_look_seconds)
        self._placement.end_standby_processes()
        self._channel.stop()

    def _make_job_settings(self, files: JobFolder, job: JobSpec, client_folder: str) -> JobSettings:
        share = self._slots.users.compute_share(job.user, starting=1)
        cores = self._placement.cores if share is None else min(self._placement.cores, share)
        return JobSettings(
            files,
            self._store.epoch,
            cores,
            cores * TUNING.lanes_per_core,
            # The loop inside a task (a worker process that runs the scheduler) stores state in
            # files, so it needs a store for files.
            loop_bytes=TUNING.loop_bytes if files.spec.accepts_files else -1,
            resumable=self._store.durable,
            hides_elements=self._settings.hides_elements,
            checks_watermarks=self._settings.checks_watermarks,
            keep_seconds=self._settings.keep_seconds,
            client_folder=client_folder,
            variables=parse_options(job, parse_runner_options).variables,
            generation=self._store.find_lineage(job.job_id).generation,
            quarantine=make_quarantine_settings(job),
        )

    def _open_ledger(self, job: JobSpec, journal: Journal, files: JobFolder) -> JobLedger:
        """Returns the committed state (ledger) of a job: recovered from an earlier server, or new."""
        if journal.exists:
            try:
                ledger = recover_ledger(
                    journal, lambda kept: self._planner.choose_retry_limits(kept, job)
                )
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
            ledger = self._planner.plan_job(job).create_initial_ledger()
            journal.store_snapshot(ledger.encode_snapshot())
        return ledger

    def _remove_ended_job(self, job: RunningJob) -> None:
        with self._lock:
            self._jobs.pop(job.job_id, None)
            self._started.pop(job.job_id, None)
        self._placement.handle_job_end()


def _read_file(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece
