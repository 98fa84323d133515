"""The job server as a whole: the Job API, what worker processes run on, and the executor that joins them."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, InvalidStateError
from pathlib import Path

from apache_beam.version import __version__ as beam_version
from beam_runner_jobservices.guard import Guard, read_guard
from beam_runner_jobservices.ports import JobHandle, JobReporter
from beam_runner_jobservices.server import Elsewhere, JobServer
from beam_runner_model.errors import Unavailable as NothingToRunOn
from beam_runner_model.jobs import JobSpec, OptionType, PipelineOption
from beam_runner_runtime.channel.place import ChannelPlace
from beam_runner_runtime.driver.tuning import RetrySettings
from beam_runner_runtime.driver.watermark_checks import are_checked
from beam_runner_runtime.job_options import JOB_OPTIONS, JobChoice, JobOption
from beam_runner_runtime.versions import BEAM
from beam_runner_storage.durable.folders import STATE, mark_folder
from beam_runner_storage.journal.store import Store
from beam_runner_storage.stores.spec import StoreSpec
from beam_runner_storage.stores.state_place import StatePlace
from beam_runner_storage.temporary import TemporaryFolder, remove_left

from beam_runner_server.data_place import DataPlace
from beam_runner_server.executor import ExecutorSettings, PlacedJobExecutor
from beam_runner_server.flags import ServerSettings
from beam_runner_server.kept_streams import KeptStreams
from beam_runner_server.placement_service import PlacementService
from beam_runner_server.waiting_jobs import NeverBegun, awaited

JOBS_LIMIT_SECONDS = 10.0
"""How long jobs have to end when the server stops."""

_DRAIN_CHECK_SECONDS = 0.1
_STATE_SECONDS = 5.0
"""How long the store of state has to answer when the server stops."""

log = logging.getLogger(__name__)


class Server:
    """A job server with its worker processes, in this process.

        server = Server(ServerSettings(job_port=0))
        address = server.start()
        ...
        server.stop()

    Making one takes the port and the state folder, and costs next to nothing else where no jobs are
    left to resume. `serve` answers clients; jobs that they run begin once `start` has started what they run on.

    Raises:
        beam_runner_jobservices.errors.AddressError: the port is taken, the host is not this machine's, or
            other machines reach it and that is not allowed and guarded.
        beam_runner_model.errors.RunnerError: a folder is in use by another server, or is not
            ours.
        beam_runner_storage.journal.errors.JournalError: the journal cannot be read or written.
        beam_runner_storage.stores.ports.StoreError: the store of state does not answer, refuses, or is not fit for it.
        OSError: a folder cannot be made or written.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._durable = settings.state_dir is not None
        self._temporary: TemporaryFolder | None = None
        self._state: StatePlace | None = None
        if isinstance(settings.state_dir, StoreSpec):
            self._state = StatePlace(settings.state_dir)
        if settings.state_dir is None or self._state is not None:
            self._temporary = TemporaryFolder("jobserver-")
            self._folder = self._temporary.path
            mark_folder(self._folder, STATE)
        else:
            assert isinstance(settings.state_dir, Path)
            self._folder = settings.state_dir.absolute()
            remove_left()
        self._stopping = threading.Lock()
        self._kept: KeptStreams | None = None
        self._serving = self._stopped = False
        self._executor: Future[PlacedJobExecutor] = Future()
        self.placement: PlacementService = settings.platform.placement()
        self._private: TemporaryFolder | None = None
        try:
            guard = _guard(settings)
            self._job_server = JobServer(
                self._start_job,
                artifacts_dir=settings.artifacts_dir or self._folder / "artifacts",
                state_dir=self._folder if self._durable else None,
                elsewhere=self._elsewhere(),
                host=settings.job_host,
                port=settings.job_port,
                guard=guard,
                socket_path=self._socket(settings, guard),
                options=(
                    PipelineOption(one.name, _type_of(one), one.description) for one in JOB_OPTIONS
                ),
                kept_until=self._kept_until,
            )
            try:
                self._store, self._data = self._open(settings.data)
                self._kept = KeptStreams(self._store, settings.keep_failed_streams)
            except BaseException:
                self._job_server.stop()
                raise
        except BaseException:
            if self._state is not None:
                self._state.close()
            self._remove_temporary()
            raise
        self.address = self._job_server.address
        """``host:port`` for clients."""
        self.door = self._job_server.door
        """The way in for what is served beside the Job API."""
        self.damage = (*self._job_server.damage, *self._store.damage)
        """Sentences that say what was found damaged in the state folder, and where it is kept."""

    def _kept_until(self) -> Mapping[str, float]:
        return {} if self._kept is None else self._kept.until()

    def _elsewhere(self) -> Elsewhere | None:
        state = self._state
        return None if state is None else Elsewhere(state.jobs, state.artifacts)

    def _open(self, data: StoreSpec | Path | None) -> tuple[Store, DataPlace]:
        state = self._state
        if state is None:
            return Store(self._folder, self._durable), DataPlace.of(data, self._folder)
        store = Store(self._folder, self._durable, state.journal)
        return store, DataPlace.of(data, self._folder, state.server_id)

    def serve(self) -> str:
        """Begins to serve, and returns the address; again does nothing.

        Clients can prepare jobs and stage files from now on. A Run is answered once `start` is done.
        """
        if not self._serving:
            self._serving = True
            self._job_server.start()
        return self.address

    def start(self) -> str:
        """Serves, starts what jobs run on, and warms it up unless there are jobs already; returns the address.

        Takes about ten seconds. To be called once; if it raises, new jobs that wait for it fail, those
        of the server before are left to the next one, and `stop` cleans up.

        Raises:
            Unavailable: what jobs run on does not start; says why in one sentence.
            StoreError: there is no place for data between stages; says likewise.
            Exception: `kill` was called meanwhile.
        """
        try:
            self.serve()
            executor = self._start_executor()
        except BaseException as error:
            self._answer_waiting_jobs(error)
            raise
        self._executor.set_result(executor)
        return self.address

    def _start_executor(self) -> PlacedJobExecutor:
        self._data.check()
        self.placement.start()
        if not self.placement.is_on_this_machine:
            self._data = self._data.for_machines(self.placement.where)
        if remark := BEAM.remark(beam_version):
            log.warning("%s", remark)
        log.info("%s is up at %s", self.placement.name, self.placement.where)
        unfinished = self._unfinished()
        if not unfinished:
            # Jobs that are there already are not to wait for it, and warm up what they need.
            self.placement.warm_up()
        self._remove_leftovers(unfinished)
        assert self._kept is not None
        self._kept.start(self._data.remove, self._unfinished)
        executor = PlacedJobExecutor(
            self.placement,
            self._store,
            ExecutorSettings(
                self._data.folder,
                self._channel_place(),
                RetrySettings(
                    self._settings.max_task_attempts,
                    self._settings.max_stream_attempts,
                    self._settings.outage_limit,
                ),
                self._settings.hide_elements,
                sync_data=self._settings.sync_data,
                store=self._data.store,
                bulk=self._settings.bulk,
                on_cluster=not self.placement.is_on_this_machine,
                checks_watermarks=are_checked(),
                keep_seconds=self._settings.keep_failed_streams,
            ),
        )
        try:
            executor.try_out()
        except BaseException:
            executor.close(suspend=True)
            raise
        return executor

    def _channel_place(self) -> ChannelPlace:
        placement = self.placement
        return self._settings.channel.place(
            placement.where,
            placement.host,
            placement.binding,
            here=placement.is_on_this_machine,
        )

    def cancel_jobs(self) -> None:
        """Cancels all jobs and waits for their ends, at most ``JOBS_LIMIT_SECONDS``."""
        self._job_server.cancel_all(JOBS_LIMIT_SECONDS)

    def drain_jobs(self) -> None:
        """Takes no more jobs, drains those that run, and waits for their ends as long as it takes.

        Clients are served meanwhile. Returns early only if what they run on ends.
        """
        draining = self._job_server.drain_all()
        while self.placement.is_alive:
            if self._unfinished().isdisjoint(draining):
                return
            time.sleep(_DRAIN_CHECK_SECONDS)

    def stop(self) -> None:
        """Stops serving, ends the work on all jobs and what they run on; again does nothing.

        With a state folder jobs are left to the next server, without one they are cancelled and all
        files removed. Takes about two seconds where no job runs. May be called from any thread.
        """
        with self._stopping:
            if self._stopped:
                return
            self._stopped = True
            self._answer_waiting_jobs(RuntimeError("the server is stopping"))
            if self._state is not None:
                self._state.hurry(_STATE_SECONDS)
            self._job_server.stop(grace=JOBS_LIMIT_SECONDS)
            if not self._executor.exception():
                self._executor.result().close(suspend=self._durable)
            self.placement.stop()
            assert self._kept is not None
            self._kept.stop()
            self._store.close()
            if self._state is not None:
                self._state.close()
            self._remove_temporary()

    def kill(self) -> None:
        """Ends what jobs run on at once, whatever it does, also while it starts, and removes temporary files."""
        self.placement.kill()
        self._remove_temporary()

    def _socket(self, settings: ServerSettings, guard: Guard) -> Path | None:
        """Where extensions reach a guarded server: only this user may open the folder."""
        if not (guard.asks and settings.extensions):
            return None
        self._private = TemporaryFolder("door-")
        return self._private.path / "jobs"

    def _remove_temporary(self) -> None:
        for folder in (self._private, self._temporary):
            if folder is not None:
                folder.remove()

    def _answer_waiting_jobs(self, error: BaseException) -> None:
        """Tells the jobs that wait for the start, now and later, that it will not be, unless it is done.

        New ones fail by that. Those of the server before stay as they are, for the next one.
        """
        with contextlib.suppress(InvalidStateError):
            self._executor.set_exception(NothingToRunOn(str(error) or type(error).__name__))

    @property
    def is_alive(self) -> bool:
        """Whether what jobs run on is there; costs about a millisecond. Not before `start`."""
        return self.placement.is_alive

    @property
    def state_failure(self) -> str | None:
        """Why this server can't commit anything more, in a sentence: another one has taken over, say."""
        return None if self._state is None else self._state.failure

    def has_jobs(self) -> bool:
        """Whether there are jobs that have not ended."""
        return bool(self._unfinished())

    def _unfinished(self) -> set[str]:
        """The jobs that have not ended."""
        return {job.job_id for job in self._job_server.jobs() if not job.state.is_terminal}

    def _remove_leftovers(self, unfinished: set[str]) -> None:
        """Removes journals and data of jobs that have ended, if the list of jobs is whole, but those that are kept."""
        if self._job_server.damage:
            return
        needed = unfinished | self._kept_until().keys()
        for job_id in self._store.job_ids():
            if job_id not in needed:
                self._store.journal(job_id).delete()
        self._data.remove_but(needed)

    def _start_job(self, job: JobSpec, reporter: JobReporter) -> JobHandle:
        executor = awaited(self._executor, lambda: self._job_server.state(job.job_id), reporter)
        return executor if isinstance(executor, NeverBegun) else executor(job, reporter)


def _type_of(option: JobOption | JobChoice) -> OptionType:
    return OptionType.STRING if isinstance(option, JobChoice) else OptionType.INTEGER


def _guard(settings: ServerSettings) -> Guard:
    guard = read_guard(
        allow_remote=settings.allow_remote,
        token_file=settings.token_file,
        certificate=settings.tls_cert,
        key=settings.tls_key,
        client_authority=settings.tls_client_ca,
    )
    if guard.allow_remote and guard.token and not guard.certificate:
        log.warning("without --tls-cert the token and all data cross the network in the clear")
    return guard
