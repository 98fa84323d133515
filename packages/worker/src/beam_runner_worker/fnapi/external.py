"""SDK harnesses of EXTERNAL environments: a worker pool at an endpoint starts and stops them.

LOOPBACK is such an environment, with the pool in the client's own process.
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
    """One worker of a pool.

    Args:
        environment_id: the environment, for messages.
        payload: a serialized ``ExternalPayload``.
        worker_id: the worker's name, unique in the pool.
        on_external_worker: called with endpoint and worker id before the request for the worker, so
            that another process can stop the worker if this process is killed.
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
        """Asks the pool for the worker.

        Raises:
            PoolUnreachable: no process listens on the endpoint.
            HarnessError: the pool doesn't answer, or refuses.
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
        # Keep the channel open to make the shutdown faster.
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
        """Returns why the pool can't be reached; pools don't report workers that died."""
        gone = None if self._watch is None else self._watch.explain_outage(limit)
        return gone and (f"the worker pool at {self._pool} doesn't respond: {_GONE}: {gone}")

    @property
    def description(self) -> str:
        """A phrase for messages: the worker and its pool."""
        return f"worker of the pool at {self._pool}"

    def measure_activity(self) -> HarnessActivity | None:
        """Returns the activity of the worker's process, which is found by the worker's name, or of the
        pool's processes.

        The result is None if neither is visible, for example for a pool on another machine or in a
        container.
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
        """A phrase that refers to the pool, whose own log may have more information."""
        return (
            f"the worker pool at {self._pool} started the worker, and the pool's log"
            " can contain the reason"
        )

    def inspect_harness(self, connection: SdkConnection) -> None:
        """Checks whether the worker is a thread of the pool's process."""
        with self._inspection_lock:
            if not self._is_inspected:
                self._is_inspected = True
                process = find_common_process(self._pool, connection.peer)
                self._demand = None if process is None else CpuDemand(process)

    def has_idle_interpreter(self, connection: SdkConnection) -> bool | None:
        """Returns whether the pool's process leaves its core idle, if the worker is a thread of the process."""
        self.inspect_harness(connection)
        share = None if self._demand is None else self._demand.measure_requested_cores()
        return None if share is None else share < _WAITING_SHARE

    def wait_until_torn_down(self, limit: float, connection: SdkConnection) -> None:
        """Waits until the worker's process has exited, which its streams show.

        A worker that is a thread of the pool's process has no such end. It tears down right after
        it has ended its data, and stopping it doesn't interrupt that. The Go SDK ends its data only
        when it is stopped. The Java SDK never does, but ends its log after the teardown.
        """
        if self._demand is None:
            if connection.wait_until_data_ended(limit):
                connection.wait_until_gone(limit)
            return
        self.stop()
        if connection.wait_until_data_ended(limit):
            connection.wait_until_gone(min(limit, _THREAD_TEARDOWN_SECONDS))

    def stop(self) -> None:
        """Asks the pool to stop the worker; a pool that is gone has no worker to stop."""
        channel, self._channel = self._channel, None
        if channel is not None:
            with channel:
                _request_stop(channel, self._worker_id, _STOP_SECONDS)


def stop_external_worker(endpoint: str, worker_id: str, limit: float = _STOP_SECONDS) -> str | None:
    """Asks a worker pool to stop a worker; any process may call it, and repeatedly.

    Args:
        endpoint: the pool's address.
        worker_id: the worker's id at its start.
        limit: the time limit in seconds; pools wait for a worker that doesn't exit.

    Returns:
        The pool's error, or why the pool was not reached; None on success.
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
