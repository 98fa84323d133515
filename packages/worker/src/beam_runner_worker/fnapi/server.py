"""gRPC server of a worker process, to which the SDK harnesses of all environments connect."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import grpc
from beam_runner_model.stages import JobContext
from beam_runner_model.threads import run_concurrently, start_helper_thread

from beam_runner_worker import samples
from beam_runner_worker._protos import (
    beam_artifact_api_pb2_grpc,
    beam_fn_api_pb2_grpc,
    beam_provision_api_pb2_grpc,
)
from beam_runner_worker.fnapi.harness import FnApiHarness, HarnessLimits
from beam_runner_worker.fnapi.provisioning import ArtifactService, ProvisionService
from beam_runner_worker.fnapi.services import (
    ControlService,
    DataService,
    LoggingService,
    SdkRegistry,
    StateService,
)
from beam_runner_worker.fnapi.status import SdkStatus, StatusService
from beam_runner_worker.ports import ArtifactReader, LogSink

_HOST = "127.0.0.1"
_THREADS = 1000
_STOP_SECONDS = 5.0
_GRACE_SECONDS = 0.5
"""Time in seconds that an SDK has to end its streams. An SDK whose streams are aborted logs an error."""

_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Allow frequent pings, because some SDKs send a ping every few seconds to keep idle streams
    # open.
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
    ("grpc.so_reuseport", 0),
]


class FnApiServer:
    """Server of Beam's Fn API for one job, on one loopback port.

    The streams of an SDK need up to eight threads. Threads are created on demand.

    Args:
        job: the job of this process.
        artifacts: reads the job's staged files.
        logs: receives the logs and the output of SDKs.
        limits: the time limits for SDK harnesses.
        on_external_worker: called with the pool's address and the worker id before an external
            worker is requested, so that another process can stop the worker
            (:func:`stop_external_worker`) if this process is killed.
    """

    def __init__(
        self,
        job: JobContext,
        artifacts: ArtifactReader,
        logs: LogSink,
        *,
        limits: HarnessLimits | None = None,
        on_external_worker: Callable[[str, str], None] = lambda endpoint, worker_id: None,
    ) -> None:
        self._job = job
        self._logs = logs
        self._limits = limits or HarnessLimits()
        self._on_external_worker = on_external_worker
        self._workers = SdkRegistry()
        self._lock = threading.Lock()
        self._harnesses: dict[str, FnApiHarness] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="fnapi")
        self._server = grpc.server(self._threads, options=_OPTIONS)
        provision = ProvisionService(job, self._workers)
        artifact = ArtifactService(job.environments, artifacts, self._workers)
        logging = LoggingService(self._workers, logs)
        self._status = StatusService(self._workers)
        fn_api = beam_fn_api_pb2_grpc
        fn_api.add_BeamFnWorkerStatusServicer_to_server(self._status, self._server)
        fn_api.add_BeamFnControlServicer_to_server(ControlService(self._workers), self._server)
        fn_api.add_BeamFnDataServicer_to_server(DataService(self._workers), self._server)
        fn_api.add_BeamFnStateServicer_to_server(StateService(self._workers), self._server)
        fn_api.add_BeamFnLoggingServicer_to_server(logging, self._server)
        beam_provision_api_pb2_grpc.add_ProvisionServiceServicer_to_server(provision, self._server)
        beam_artifact_api_pb2_grpc.add_ArtifactRetrievalServiceServicer_to_server(
            artifact, self._server
        )
        self.endpoint = f"{_HOST}:{self._server.add_insecure_port(f'{_HOST}:0')}"
        """Host and port at which the server listens."""
        provision.endpoint = self._status.endpoint = self.endpoint
        self._server.start()

    def get_harness(self, environment_id: str) -> FnApiHarness:
        """Returns the harness of an environment of the job. Every call for an environment returns the same object."""
        with self._lock:
            if environment_id not in self._harnesses:
                self._harnesses[environment_id] = FnApiHarness(
                    environment_id,
                    self._job.environments[environment_id],
                    self._workers,
                    self.endpoint,
                    self._logs,
                    self._limits,
                    self._on_external_worker,
                    sampling=samples.are_samples_enabled(self._job.options_json),
                )
            return self._harnesses[environment_id]

    def request_sdk_status(self, seconds: float) -> tuple[SdkStatus, ...]:
        """Returns the status reports of the SDK harnesses that answer within the time limit."""
        return self._status.request_reports(seconds)

    def close(self) -> None:
        """Closes all harnesses, and then the server. Idempotent; takes at most some seconds."""
        with self._lock:
            harnesses = list(self._harnesses.values())
        run_concurrently(FnApiHarness.close, harnesses, len(harnesses), "fnapi-close")
        self._server.stop(grace=_GRACE_SECONDS).wait(_STOP_SECONDS)
        start_helper_thread(self._threads.shutdown, "fnapi-end").join(_STOP_SECONDS)
