"""SDK harnesses of EXTERNAL environments, which a worker pool at a network address starts and stops.

LOOPBACK is an EXTERNAL environment whose worker pool runs in the client's process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property

import grpc

from beam_runner_worker._protos import (
    beam_fn_api_pb2,
    beam_fn_api_pb2_grpc,
    beam_runner_api_pb2,
    endpoints_pb2,
)
from beam_runner_worker.errors import HarnessError, PoolUnreachable
from beam_runner_worker.fnapi.activity import NamedProcess, measure_process_activity
from beam_runner_worker.fnapi.connection import SdkConnection
from beam_runner_worker.fnapi.demand import CpuDemand
from beam_runner_worker.fnapi.peers import find_common_process, find_listening_process
from beam_runner_worker.fnapi.pool_watch import PoolHealthCheck
from beam_runner_worker.fnapi.starting import HarnessActivity

_CALL_SECONDS = 30.0
_STOP_SECONDS = 15.0
_GONE = (
    "with LOOPBACK, the pool is the program that submitted the job; that program has"
    " exited, or runs on another machine than this worker"
)
_THREAD_TEARDOWN_SECONDS = 0.05
_WAITING_SHARE = 0.5


class ExternalWorker:
    """SDK harness that a worker pool runs.

    Args:
        environment_id: id of the environment, for error messages.
        payload: a serialized ``ExternalPayload``.
        worker_id: the worker's name, unique in the pool.
        on_external_worker: called with the pool's address and the worker id before the worker is
            requested, so that another process can stop the worker if this process is killed.
    """

    needs_preparation = False
    is_failure_permanent = False

    def __init__(
        self,
        environment_id: str,
        payload: bytes,
        worker_id: str,
        on_external_worker: Callable[[str, str], None],
    ) -> None:
        parsed = beam_runner_api_pb2.ExternalPayload.FromString(payload)
        self._environment_id = environment_id
        self._pool = parsed.endpoint.url
        self._params = dict(parsed.params)
        self._worker_id = worker_id
        self._on_external_worker = on_external_worker
        self._channel: grpc.Channel | None = None
        self._watch: PoolHealthCheck | None = None
        self._process = NamedProcess(worker_id)
        self._inspection_lock = threading.Lock()
        self._is_inspected = False
        self._demand: CpuDemand | None = None

    def start(self, endpoint: str) -> None:
        """Requests that the pool starts the worker.

        Raises:
            PoolUnreachable: no process listens on the endpoint.
            HarnessError: The pool doesn't answer, or rejects the request.
        """
        services = endpoints_pb2.ApiServiceDescriptor(url=endpoint)
        request = beam_fn_api_pb2.StartWorkerRequest(
            worker_id=self._worker_id,
            control_endpoint=services,
            logging_endpoint=services,
            artifact_endpoint=services,
            provision_endpoint=services,
            params=self._params,
        )
        self._on_external_worker(self._pool, self._worker_id)
        # Keep the gRPC channel to the worker pool open, so that the shutdown is faster.
        self._channel = grpc.insecure_channel(self._pool)
        self._watch = PoolHealthCheck(self._channel)
        pool = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(self._channel)
        kind: type[HarnessError] = HarnessError
        try:
            error = pool.StartWorker(request, timeout=_CALL_SECONDS).error
        except grpc.RpcError as failure:
            error = _format_rpc_error(failure)
            if failure.code() is grpc.StatusCode.UNAVAILABLE:
                kind, error = PoolUnreachable, f"can't connect to it; {_GONE}: {error}"
        if error:
            # Beam's own pool sends a traceback, whose last line is the error.
            *trace, last = error.strip().splitlines()
            raise kind(
                "\n".join(
                    (
                        f"the worker pool at {self._pool} of the environment "
                        f"{self._environment_id!r} did not start a worker: {last}",
                        *trace,
                    )
                )
            )

    def explain_failure(self, limit: float = 0.0) -> str | None:
        """Returns the reason if the pool doesn't respond, otherwise None. Pools don't report workers that exited."""
        gone = None if self._watch is None else self._watch.explain_outage(limit)
        return gone and (f"the worker pool at {self._pool} doesn't respond: {_GONE}: {gone}")

    @property
    def description(self) -> str:
        """Noun phrase for messages that names the worker and its pool."""
        return f"worker of the pool at {self._pool}"

    def measure_activity(self) -> HarnessActivity | None:
        """Returns the activity of the worker's process, or of the pool's processes if the worker's
        process isn't found.

        The result is None if these processes aren't visible, for example if the pool runs on
        another machine or in a container.
        """
        found = self._process.measure_activity()
        if found is None and self._pool_process is not None:
            found = measure_process_activity(self._pool_process)
        return found

    @cached_property
    def _pool_process(self) -> int | None:
        return find_listening_process(self._pool)

    @property
    def log_hint(self) -> str:
        """Hint for error messages to look at the log of the worker pool."""
        return (
            f"the worker pool at {self._pool} started the worker, and the pool's log"
            " can contain the reason"
        )

    def inspect_harness(self, connection: SdkConnection) -> None:
        """Determines whether the worker is a thread of the pool's process, because such a worker must
        be shut down differently.
        """
        with self._inspection_lock:
            if not self._is_inspected:
                self._is_inspected = True
                process = find_common_process(self._pool, connection.peer)
                self._demand = None if process is None else CpuDemand(process)

    def has_idle_interpreter(self, connection: SdkConnection) -> bool | None:
        """Returns True if the worker is a thread of the pool's process and this process used less than
        half a core; None if unknown.
        """
        self.inspect_harness(connection)
        share = None if self._demand is None else self._demand.measure_requested_cores()
        return None if share is None else share < _WAITING_SHARE

    def wait_until_torn_down(self, limit: float, connection: SdkConnection) -> None:
        """Waits until the worker has torn down its DoFns. For a worker in a separate process, this is
        the end of all its streams.

        A worker that is a thread of the pool's process may leave streams open. Such a worker tears
        down its DoFns immediately after the end of its data stream, even while the pool stops the
        worker. The Go SDK ends its data stream only when it is stopped. The Java SDK never ends its
        data stream, but ends its log stream after the teardown.
        """
        if self._demand is None:
            if connection.wait_until_data_stream_ended(limit):
                connection.wait_until_streams_ended(limit)
            return
        self.stop()
        if connection.wait_until_data_stream_ended(limit):
            connection.wait_until_streams_ended(min(limit, _THREAD_TEARDOWN_SECONDS))

    def stop(self) -> None:
        """Requests that the pool stops the worker. Errors are ignored, because the workers of an
        exited pool have exited, too.
        """
        channel, self._channel = self._channel, None
        if channel is not None:
            with channel:
                _request_stop(channel, self._worker_id, _STOP_SECONDS)


def stop_external_worker(endpoint: str, worker_id: str, limit: float = _STOP_SECONDS) -> str | None:
    """Requests that a worker pool stops a worker. Any process may call this function, also repeatedly.

    Args:
        endpoint: the pool's address.
        worker_id: the worker's id at its start.
        limit: the time limit in seconds, because pools wait until the worker has exited.

    Returns:
        The error that the pool reports, or the reason if the pool can't be reached; None on
        success.
    """
    with grpc.insecure_channel(endpoint) as channel:
        return _request_stop(channel, worker_id, limit)


def _request_stop(channel: grpc.Channel, worker_id: str, limit: float) -> str | None:
    request = beam_fn_api_pb2.StopWorkerRequest(worker_id=worker_id)
    pool = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel)
    try:
        error: str = pool.StopWorker(request, timeout=limit).error
        return error or None
    except grpc.RpcError as failure:
        return _format_rpc_error(failure)


def _format_rpc_error(failure: grpc.RpcError) -> str:
    if isinstance(failure, grpc.Call):
        return f"{failure.code().name}: {failure.details()}"
    return str(failure)
