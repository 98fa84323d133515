"""Complete job server: the Job API, the placement that runs worker processes, and the executor of jobs."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, InvalidStateError
from pathlib import Path

import attrs
from apache_beam.version import __version__ as beam_version
from beam_runner_driver.coordination.watermark_checks import are_watermark_checks_enabled
from beam_runner_driver.reports.story import reconstruct_bundle_history
from beam_runner_driver.tuning import RetrySettings
from beam_runner_jobservices.errors import NotReady
from beam_runner_jobservices.guard import AccessGuard, read_access_guard
from beam_runner_jobservices.limits import ServerLimits
from beam_runner_jobservices.ports import JobHandle, JobReporter
from beam_runner_jobservices.server import JobServer, RemoteStorage
from beam_runner_model.errors import Unavailable as NothingToRunOn
from beam_runner_model.jobs import JobInfo, JobSpec, PipelineOption
from beam_runner_model.readiness import Readiness
from beam_runner_model.replays import ReplayReport
from beam_runner_model.savepoints import Savepoint
from beam_runner_model.stories import BundleHistory
from beam_runner_runtime.channel.place import ChannelAddress
from beam_runner_runtime.job_options import JOB_OPTIONS
from beam_runner_runtime.quarantine_options import QUARANTINE_OPTIONS
from beam_runner_runtime.shutdown.limits import LIMITS
from beam_runner_runtime.update_options import UPDATE_OPTIONS
from beam_runner_runtime.versions import BEAM
from beam_runner_storage.durable.folders import STATE, mark_folder
from beam_runner_storage.journal.codec import RecordFormatError
from beam_runner_storage.journal.errors import JournalError
from beam_runner_storage.journal.store import JournalStore
from beam_runner_storage.stores.remote_state import RemoteState
from beam_runner_storage.stores.spec import StoreSpec
from beam_runner_storage.temporary import TemporaryFolder, remove_stale_folders

from beam_runner_server.executor import PlacedJobExecutor
from beam_runner_server.executor_settings import ExecutorSettings
from beam_runner_server.flags import ServerSettings
from beam_runner_server.job_folders import JobFolders
from beam_runner_server.placement_service import PlacementService
from beam_runner_server.retained_streams import StreamRetention
from beam_runner_server.rollbacks import plan_rollback
from beam_runner_server.waiting_jobs import NeverStartedJob, wait_for_requirement

_DRAIN_CHECK_SECONDS = 0.1

log = logging.getLogger(__name__)


class RunnerServer:
    """A job server with its worker processes, in this process.

        server = Server(ServerSettings(job_port=0))
        address = server.start()
        ...
        server.stop()

    The constructor binds the port and locks the state folder. After `serve`, clients can connect.
    After `start`, worker processes run, and jobs start.

    Raises:
        beam_runner_jobservices.errors.AddressError: the port is in use, the host isn't this
            machine, or other machines can reach the address and that isn't allowed and guarded.
        beam_runner_model.errors.RunnerError: a folder is in use by another server, or belongs to
            another program.
        beam_runner_storage.journal.errors.JournalError: the journal can't be read or written.
        beam_runner_storage.stores.ports.StoreError: the state store doesn't answer, refuses, or
            isn't suitable.
        OSError: a folder can't be created or written.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._durable = settings.state_dir is not None
        self._temporary: TemporaryFolder | None = None
        self._state: RemoteState | None = None
        if isinstance(settings.state_dir, StoreSpec):
            self._state = RemoteState(settings.state_dir)
        if settings.state_dir is None or self._state is not None:
            self._temporary = TemporaryFolder("jobserver-")
            self._folder = self._temporary.path
            mark_folder(self._folder, STATE)
        else:
            assert isinstance(settings.state_dir, Path)
            self._folder = settings.state_dir.absolute()
            remove_stale_folders()
        self._stopping = threading.Lock()
        self._kept: StreamRetention | None = None
        self._serving = self._draining = self._stopped = False
        self._executor: Future[PlacedJobExecutor] = Future()
        self.placement: PlacementService = settings.platform.create_placement()
        self._private: TemporaryFolder | None = None
        try:
            guard = self._guard = _make_access_guard(settings)
            self._job_server = JobServer(
                self._start_job,
                artifacts_dir=settings.artifacts_dir or self._folder / "artifacts",
                state_dir=self._folder if self._durable else None,
                elsewhere=self._list_shared_state_stores(),
                host=settings.job_host,
                port=settings.job_port,
                limits=_make_server_limits(settings),
                guard=guard,
                socket_path=self._get_extension_socket(settings, guard),
                options=(
                    PipelineOption(one.name, one.type, one.description)
                    for one in (*JOB_OPTIONS, *UPDATE_OPTIONS, *QUARANTINE_OPTIONS)
                ),
                kept_until=self._list_retention_ends,
                tell_story=self._reconstruct_history,
                make_savepoint=self._make_savepoint,
                replay_quarantine=self._replay_quarantine,
                plan_rollback=plan_rollback,
            )
            try:
                self._store, self._data = self._open_store(settings)
                self._kept = StreamRetention(self._store, settings.keep_failed_streams)
            except BaseException:
                self._job_server.stop()
                raise
        except BaseException:
            if self._state is not None:
                self._state.close()
            self._remove_temporary_folders()
            raise
        self.address = self._job_server.address
        """The ``host:port`` for clients."""
        self.door = attrs.evolve(self._job_server.door, check_readiness=self.check_readiness)
        """The local access for extensions."""
        self.damage = (*self._job_server.damage, *self._store.damage)
        """Sentences about damaged data in the state folder, with the location to which it was moved."""

    def _list_retention_ends(self) -> Mapping[str, float]:
        return {} if self._kept is None else self._kept.list_expiry_times()

    def _reconstruct_history(self, job_id: str, bundle: int) -> BundleHistory:
        try:
            return reconstruct_bundle_history(self._store.get_journal(job_id), bundle)
        except (JournalError, RecordFormatError) as error:
            raise NotReady(f"Can't read the journal of job {job_id}: {error}") from error

    def _make_savepoint(self, job: JobInfo, url: str) -> Savepoint:
        return self._get_started_executor().make_savepoint(job, url)

    def _replay_quarantine(self, job: JobInfo, url: str, expired: bool) -> ReplayReport:
        return self._get_started_executor().replay_quarantine(job, url, expired)

    def _get_started_executor(self) -> PlacedJobExecutor:
        if not self._executor.done():
            raise NotReady("the server hasn't started its worker processes yet")
        return self._executor.result()

    def _list_shared_state_stores(self) -> RemoteStorage | None:
        state = self._state
        return None if state is None else RemoteStorage(state.jobs, state.artifacts)

    def _open_store(self, settings: ServerSettings) -> tuple[JournalStore, JobFolders]:
        log = None if self._state is None else self._state.journal
        store = JournalStore(self._folder, self._durable, log)
        place = settings.state_dir
        state = place if isinstance(place, StoreSpec) else StoreSpec(str(self._folder))
        durable = settings.sync_data
        return store, JobFolders.create(settings.data, self._folder, state, durable=durable)

    def serve(self) -> str:
        """Starts to accept calls of clients, and returns the address. Further calls do nothing.

        From now on, clients can prepare jobs and stage files. Jobs run after `start`.
        """
        if not self._serving:
            self._serving = True
            self._job_server.start()
        return self.address

    def start(self) -> str:
        """Accepts calls of clients, starts Spark or another placement, and prepares worker
        processes. Returns the address.

        Takes about 10 s, and must be called once. After an error, new jobs that wait for the start
        fail, the next server resumes the jobs of earlier servers, and the caller must call `stop`.

        Raises:
            Unavailable: the platform doesn't start; the text says why.
            StoreError: the store for data between stages can't be used; the text says why.
            Exception: `kill` was called meanwhile.
        """
        try:
            self.serve()
            executor = self._start_executor()
        except BaseException as error:
            self._fail_waiting_jobs(error)
            raise
        self._executor.set_result(executor)
        return self.address

    def _start_executor(self) -> PlacedJobExecutor:
        self._data.check_store()
        self.placement.start()
        if not self.placement.is_on_this_machine and self._settings.data is None:
            self._data = self._data.copy_without_shared_store(self.placement.where)
        if remark := BEAM.describe_untested_version(beam_version):
            log.warning("%s", remark)
        log.info("%s is up at %s", self.placement.name, self.placement.where)
        unfinished = self._list_unfinished_jobs()
        if not unfinished:
            # Don't prepare worker processes if jobs of an earlier server wait: these jobs start the
            # processes that they need.
            self.placement.warm_up()
        self._remove_leftovers(unfinished)
        assert self._kept is not None
        self._kept.start(self._remove_job_files, self._list_unfinished_jobs)
        executor = PlacedJobExecutor(
            self.placement,
            self._store,
            ExecutorSettings(
                self._data,
                self._make_channel_place(),
                RetrySettings(
                    self._settings.max_task_attempts,
                    self._settings.max_stream_attempts,
                    self._settings.outage_limit,
                ),
                self._settings.hide_elements,
                bulk=self._settings.bulk,
                on_cluster=not self.placement.is_on_this_machine,
                checks_watermarks=are_watermark_checks_enabled(),
                keep_seconds=self._settings.keep_failed_streams,
            ),
            lambda user: self._guard.find_quota(user).cores,
            self._job_server.list_jobs,
        )
        try:
            executor.check_workers()
        except BaseException:
            executor.close(suspend=True)
            raise
        return executor

    def _make_channel_place(self) -> ChannelAddress:
        placement = self.placement
        return self._settings.channel.make_channel_address(
            placement.where,
            placement.host,
            placement.binding,
            here=placement.is_on_this_machine,
        )

    def cancel_jobs(self) -> None:
        """Cancels all jobs, and waits at most ``server_jobs_seconds`` for the ends of the jobs."""
        self._job_server.cancel_all(LIMITS.server_jobs_seconds)

    def drain_jobs(self) -> None:
        """Refuses new jobs, drains the running jobs, and waits until they end, without a limit.

        Clients can still observe the jobs. The method returns early only if Spark or another
        placement ends.
        """
        self._draining = True
        draining = self._job_server.drain_all()
        while self.placement.is_alive:
            if self._list_unfinished_jobs().isdisjoint(draining):
                return
            time.sleep(_DRAIN_CHECK_SECONDS)

    def stop(self) -> None:
        """Stops the server, the work on all jobs, and all worker processes. Further calls do
        nothing.

        With a state folder, the next server resumes the jobs. Without a state folder, the server
        cancels the jobs and removes all files. Takes about 2 s if no job runs. May be called from
        any thread.
        """
        with self._stopping:
            if self._stopped:
                return
            self._stopped = True
            self._fail_waiting_jobs(RuntimeError("the server is shutting down"))
            if self._state is not None:
                self._state.limit_wait_times(LIMITS.server_state_seconds)
            self._job_server.stop(grace=LIMITS.server_jobs_seconds)
            if not self._executor.exception():
                self._executor.result().close(suspend=self._durable)
            self.placement.stop()
            assert self._kept is not None
            self._kept.stop()
            self._store.close()
            if self._state is not None:
                self._state.close()
            self._remove_temporary_folders()

    def kill(self) -> None:
        """Kills Spark and all worker processes immediately, and removes temporary files."""
        self.placement.kill()
        self._remove_temporary_folders()

    def _get_extension_socket(self, settings: ServerSettings, guard: AccessGuard) -> Path | None:
        """Returns the Unix socket by which extensions reach a server that requires authentication.
        Only this user can open its folder.
        """
        if not (guard.requires_credentials and settings.extensions):
            return None
        self._private = TemporaryFolder("door-")
        return self._private.path / "jobs"

    def _remove_temporary_folders(self) -> None:
        for folder in (self._private, self._temporary):
            if folder is not None:
                folder.remove_folder()

    def _fail_waiting_jobs(self, error: BaseException) -> None:
        """Fails the new jobs that wait for the start of worker processes, because the start failed.

        Jobs of an earlier server don't change, so that the next server can resume them.
        """
        with contextlib.suppress(InvalidStateError):
            self._executor.set_exception(NothingToRunOn(str(error) or type(error).__name__))

    @property
    def is_alive(self) -> bool:
        """Returns whether Spark or another placement runs. Takes about 1 ms. Call this method only after `start`."""
        return self.placement.is_alive

    @property
    def state_failure(self) -> str | None:
        """Reason why this server can't commit results, such as a takeover by another server; None
        if commits are possible.
        """
        return None if self._state is None else self._state.failure

    def check_readiness(self) -> Readiness:
        """Returns whether this server can start a job now. Takes about 1 ms. Thread-safe."""
        if not self._executor.done():
            return Readiness.STARTING
        if not self.placement.is_alive:
            return Readiness.NO_PLACEMENT
        if self._state is not None and not self._state.accepts_commits:
            return Readiness.NO_STATE_STORE
        return Readiness.DRAINING if self._draining else Readiness.READY

    def has_jobs(self) -> bool:
        """Returns whether unfinished jobs exist."""
        return bool(self._list_unfinished_jobs())

    def _list_unfinished_jobs(self) -> set[str]:
        """Returns the unfinished jobs."""
        return {job.job_id for job in self._job_server.list_jobs() if not job.state.is_terminal}

    def _remove_leftovers(self, unfinished: set[str]) -> None:
        """Removes journals and data of finished jobs whose state isn't retained. Does nothing if
        the list of jobs is damaged.
        """
        if self._job_server.damage:
            return
        needed = unfinished | self._list_retention_ends().keys()
        for job_id in self._store.list_job_ids():
            if job_id not in needed:
                self._store.get_journal(job_id).delete_journal()
        self._data.remove_other_jobs({self._find_folder_owner(job_id) for job_id in needed})

    def _remove_job_files(self, job_id: str) -> None:
        self._data.remove_job_files(self._find_folder_owner(job_id))

    def _find_folder_owner(self, job_id: str) -> str:
        """Returns the ID of the job whose folder has the files of a job."""
        return self._store.find_lineage(job_id).owner

    def _start_job(self, job: JobSpec, reporter: JobReporter) -> JobHandle:
        executor = wait_for_requirement(
            self._executor, lambda: self._job_server.get_job_state(job.job_id), reporter
        )
        return executor if isinstance(executor, NeverStartedJob) else executor(job, reporter)


def _make_server_limits(settings: ServerSettings) -> ServerLimits:
    return ServerLimits(
        messages=settings.keep_messages,
        ended_jobs=settings.keep_jobs,
        ended_seconds=settings.keep_jobs_for,
    )


def _make_access_guard(settings: ServerSettings) -> AccessGuard:
    guard = read_access_guard(
        allow_remote=settings.allow_remote,
        token_file=settings.token_file,
        users_file=settings.users_file,
        certificate=settings.tls_cert,
        key=settings.tls_key,
        client_authority=settings.tls_client_ca,
    )
    if guard.allow_remote and guard.requires_token and not guard.certificate:
        log.warning("without --tls-cert, the token and all data cross the network unencrypted")
    return guard
