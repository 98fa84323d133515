"""Job server: the gRPC services of the Job API on one port, which pass jobs to a runner's executor."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import attrs
import grpc
from beam_runner_model.jobs import JobInfo, JobState, PipelineOption
from beam_runner_storage.durable.logged import TransactionLog

from beam_runner_jobservices._protos import (
    add_job_service,
    add_retrieval_service,
    add_staging_service,
)
from beam_runner_jobservices.artifact_services import RetrievalService, StagingService
from beam_runner_jobservices.binding import bind_port, bind_socket
from beam_runner_jobservices.decoding import DecodingInterceptor
from beam_runner_jobservices.guard import AccessGuard
from beam_runner_jobservices.job_file import JobFile
from beam_runner_jobservices.job_service import JobService
from beam_runner_jobservices.job_specs import list_artifact_hashes
from beam_runner_jobservices.limits import ServerLimits
from beam_runner_jobservices.local_access import LocalAccess
from beam_runner_jobservices.observation_service import ObservationService
from beam_runner_jobservices.ports import (
    JobExecutor,
    QuarantineReplayer,
    RollbackPlanner,
    SavepointMaker,
    StoryTeller,
)
from beam_runner_jobservices.preparations import PreparationRegistry
from beam_runner_jobservices.recorder import FinishedJobSummary, InMemoryRecorder, UnfinishedJob
from beam_runner_jobservices.registry import JobRegistry
from beam_runner_jobservices.rollbacks import RollbackStarter
from beam_runner_jobservices.store import ArtifactStore, RemoteFiles
from beam_runner_jobservices.threads import ThreadPerCall, start_retrying_thread
from beam_runner_jobservices.user_queues import UserQueues

_LOGGER = logging.getLogger(__name__)

_SERVER_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_ping_strikes", 0),
)
_WILDCARDS = frozenset({"0.0.0.0", "::"})
_LAST_WORDS = 1.0
_STOPPING_LIMIT = 5.0


@attrs.frozen
class RemoteStorage:
    """Remote storage for the list of jobs and their artifacts, so that a server on another machine can continue."""

    jobs: TransactionLog
    artifacts: RemoteFiles


class JobServer:
    """Server of the Job API and the artifact services for a runner.

        with JobServer(executor, artifacts_dir="/var/lib/my-runner/artifacts", port=8099) as server:
            print("serving at", server.address)
            ...

    The constructor binds the port, so that a port in use is the first error. `start` begins to
    serve.

    Args:
        executor: the executor that starts the jobs.
        artifacts_dir: a folder that only this server uses. The server removes unneeded artifacts at
            start and stop.
        state_dir: a folder that only this server uses, in which the server stores jobs. The next
            server with the same `state_dir` and `artifacts_dir` shows the finished jobs, and passes
            the unfinished jobs to its executor again. Without `state_dir`, jobs end with the
            server.
        elsewhere: remote storage for jobs and artifacts. The folders then contain only temporary
        data of this server, and `state_dir` must be empty. host, port: the address to listen on.
        `localhost` is IPv4 and IPv6; port 0 selects a free port.
        options: the pipeline options that the runner understands in addition to Beam's own.
        advertised_host: the host name for clients and SDK harnesses; by default `host`, or the
            machine's name if `host` is a wildcard.
        guard: the access control; by default the server accepts only processes of this machine.
        socket_path: a path for a Unix socket without TLS, for programs of the server's owner. Only
            the owner may open its folder.
        clock: returns wall-clock seconds since the epoch.
        kept_until: returns the finished jobs whose state the runner stores, and the expiry times.
        tell_story: returns the runner's records about a bundle; None without records.
        make_savepoint: copies the state of a stream; None if the runner can't.
        replay_quarantine: function that feeds quarantined elements back into a job; None if the
            runner can't.
        plan_rollback: returns the pipeline options of a rollback; None if the runner can't replace
            jobs.

    Raises:
        AddressError: the server can't listen on the address, or isn't allowed to.
        RunnerError: a folder is in use by another server, was written by another version, or
            contains files of another program.
        OSError: a folder can't be created or written.
    """

    def __init__(
        self,
        executor: JobExecutor,
        *,
        artifacts_dir: str | os.PathLike[str],
        state_dir: str | os.PathLike[str] | None = None,
        elsewhere: RemoteStorage | None = None,
        host: str = "localhost",
        port: int = 8099,
        options: Iterable[PipelineOption] = (),
        advertised_host: str | None = None,
        limits: ServerLimits | None = None,
        guard: AccessGuard | None = None,
        socket_path: Path | None = None,
        clock: Callable[[], float] = time.time,
        kept_until: Callable[[], Mapping[str, float]] = dict,
        tell_story: StoryTeller | None = None,
        make_savepoint: SavepointMaker | None = None,
        replay_quarantine: QuarantineReplayer | None = None,
        plan_rollback: RollbackPlanner | None = None,
    ) -> None:
        limits = limits or ServerLimits()
        guard = guard or AccessGuard()
        self._started = False
        self._server = grpc.server(
            ThreadPerCall("beam-job-api"),
            interceptors=(*guard.make_interceptors(), DecodingInterceptor(limits.request_bytes)),
            options=_make_server_options(limits),
            maximum_concurrent_rpcs=limits.calls,
        )
        self.port = bind_port(self._server, host, port, guard)
        """The port on which the server listens."""
        self.address = f"{advertised_host or _choose_advertised_host(host)}:{self.port}"
        """The ``host:port`` that the server advertises to clients."""
        try:
            self.door = self._open_local_access(guard, socket_path)
            """The local access for a program of the server's owner. With TLS, it exists only with `socket_path`."""
            self._file, self._store = _open_folders(artifacts_dir, state_dir, elsewhere)
        except BaseException:
            self._release_port(0.0)
            raise
        self._preparations = PreparationRegistry(self._store, limits, clock)
        recorder = self._file or InMemoryRecorder()
        queues = UserQueues(guard.find_quota)
        self._registry = JobRegistry(
            executor, self._store, self._preparations, recorder, limits, clock, queues
        )
        if self._file is not None:
            self._registry.restore_jobs(self._file.jobs)
        self._staging = StagingService(self._preparations, self._store, limits.staging_idle)
        self._pages = ""
        rollbacks = RollbackStarter(self._registry, self._store, plan_rollback, self.address, clock)
        runner = (kept_until, tell_story, make_savepoint, replay_quarantine)
        callers = (lambda: self._pages, guard.find_owner_limit, guard.find_user_name)
        observation = ObservationService(self._registry, *runner, rollbacks, *callers)
        self._add_services(tuple(options), limits, guard, observation)
        self._period = min(limits.preparation_ttl, limits.staging_idle, 240.0) / 4
        self._stopping = threading.Event()
        self._resumer: threading.Thread | None = None

    def _open_local_access(self, guard: AccessGuard, socket_path: Path | None) -> LocalAccess:
        target = self.address
        if socket_path is not None:
            target = bind_socket(self._server, socket_path)
        return LocalAccess(
            self.address,
            target,
            guard.local_token,
            guard.requires_credentials,
            self._set_pages,
            users=guard.users,
        )

    def _set_pages(self, url: str) -> None:
        self._pages = url

    def _add_services(
        self,
        options: tuple[PipelineOption, ...],
        limits: ServerLimits,
        guard: AccessGuard,
        observation: ObservationService,
    ) -> None:
        jobs = JobService(
            self._preparations,
            self._registry,
            options,
            self.address,
            limits.streams,
            guard.find_user_name,
            guard.find_owner_limit,
        )
        retrieval = RetrievalService(self._store)
        add_job_service(jobs, self._server)
        add_staging_service(self._staging, self._server)
        add_retrieval_service(retrieval, self._server)
        self._server.add_generic_rpc_handlers((observation.make_handlers(),))

    @property
    def damage(self) -> tuple[str, ...]:
        """Descriptions of damaged data in `state_dir`, and of the place where the damaged data is stored."""
        return () if self._file is None else self._file.damage

    def start(self) -> str:
        """Begins to serve, and returns the address for clients. Must be called once.

        A separate thread passes the unfinished jobs of an earlier server to the executor.
        """
        start_retrying_thread(self._run_housekeeping, "beam-job-api-housekeeping")
        self._server.start()
        self._started = True
        self._resumer = start_retrying_thread(
            partial(self._registry.resume_jobs, self.address), "beam-job-api-resuming"
        )
        _LOGGER.info("serving the Beam Job API at %s", self.address)
        return self.address

    def list_jobs(self) -> tuple[JobInfo, ...]:
        """Returns the jobs that were run, oldest first, with the last few hundred finished jobs."""
        return tuple(job.info for job in self._registry.list_jobs())

    def get_job_state(self, job_id: str) -> JobState:
        """Returns the state of a job that `jobs` lists.

        Raises:
            NotFound: the job doesn't exist.
        """
        return self._registry.get_job(job_id).info.state

    def cancel_all(self, timeout: float) -> tuple[str, ...]:
        """Cancels all jobs, and waits up to `timeout` seconds until they have finished.

        Returns the ids of the jobs that are unfinished after the wait.
        """
        return self._registry.cancel_all(timeout)

    def drain_all(self) -> tuple[str, ...]:
        """Refuses new jobs, and drains all unfinished jobs; returns the ids of the drained jobs.

        The method doesn't wait for the end of the jobs. `jobs` shows their states.
        """
        self._registry.refuse_new_jobs()
        return self._registry.drain_all()

    def stop(self, grace: float = 5.0) -> tuple[str, ...]:
        """Refuses new jobs, and stops serving; may be called more than once.

        Without a `state_dir`, the server cancels the running jobs, and waits up to `grace` seconds
        for their end. With a `state_dir`, the next server continues the jobs: this server ignores
        later reports of the executor, and the jobs' streams end with UNAVAILABLE. Then the server
        waits up to 1 s for clients to read the rest of their streams. Returns the ids of the
        unfinished jobs.
        """
        self._registry.refuse_new_jobs()
        if self._file is not None:
            self._file.stop_retries()
            self._registry.record_stage_series()
            left = self._registry.suspend_all()
        elif left := self.cancel_all(grace):
            _LOGGER.warning("Jobs that did not end within %.0f s: %s", grace, ", ".join(left))
        self._stopping.set()
        self._release_port(_LAST_WORDS)
        if self._resumer is not None:
            self._resumer.join(_STOPPING_LIMIT)
        self._store.close()
        if self._file is not None:
            self._file.close()
        return left

    def _release_port(self, grace: float) -> None:
        if not self._started:
            # Start the server before stopping it, because gRPC ignores the stop of a server that
            # was never started and keeps its port.
            self._started = True
            self._server.start()
        self._server.stop(grace).wait(grace + _STOPPING_LIMIT)

    def _run_housekeeping(self) -> None:
        while not self._stopping.wait(self._period):
            try:
                self._preparations.remove_expired()
                self._staging.cancel_idle_sessions()
                self._registry.record_stage_series()
                self._registry.remove_excess_jobs()
                # The file of users can give a user a larger quota.
                self._registry.start_waiting_jobs()
            except Exception:
                _LOGGER.exception("Housekeeping failed; the server will retry")

    def __enter__(self) -> JobServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _make_server_options(limits: ServerLimits) -> tuple[tuple[str, int], ...]:
    # Limit messages in gRPC, too, because gRPC holds three copies of a message in memory before
    # this code can check its size.
    return (*_SERVER_OPTIONS, ("grpc.max_receive_message_length", 2 * limits.request_bytes))


def _open_folders(
    artifacts_dir: str | os.PathLike[str],
    state_dir: str | os.PathLike[str] | None,
    elsewhere: RemoteStorage | None,
) -> tuple[JobFile | None, ArtifactStore]:
    """Returns the list of jobs on disk (None without `state_dir`), and the store of the jobs' artifacts."""
    if state_dir is None:
        return None, ArtifactStore(artifacts_dir)
    file = JobFile(Path(state_dir), None if elsewhere is None else elsewhere.jobs)
    try:
        far = None if elsewhere is None else elsewhere.artifacts
        return file, ArtifactStore(artifacts_dir, _list_held_artifacts(file.jobs), far)
    except BaseException:
        file.close()
        raise


def _list_held_artifacts(jobs: Iterable[UnfinishedJob | FinishedJobSummary]) -> dict[str, set[str]]:
    """Returns the hashes of the artifacts that jobs still need, by owner."""
    return {
        job.owner: list_artifact_hashes(
            job.spec.artifacts if isinstance(job, UnfinishedJob) else job.artifacts
        )
        for job in jobs
        if isinstance(job, UnfinishedJob) or job.owner
    }


def _choose_advertised_host(host: str) -> str:
    """Returns the host name that clients use to reach a server that listens on `host`."""
    if host not in _WILDCARDS:
        return f"[{host}]" if ":" in host else host
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return "localhost"
    return name
