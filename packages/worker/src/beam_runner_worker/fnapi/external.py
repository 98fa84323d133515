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
from beam_runner_worker.fnapi.activity import NamedProcess, activity_of
from beam_runner_worker.fnapi.connection import SdkConnection
from beam_runner_worker.fnapi.demand import Demand
from beam_runner_worker.fnapi.peers import common_process, process_listening
from beam_runner_worker.fnapi.pool_watch import PoolWatch
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

    prepares = False
    hopeless = False

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
        self._watch: PoolWatch | None = None
        self._process = NamedProcess(worker_id)
        self._looking = threading.Lock()
        self._seen = False
        self._demand: Demand | None = None

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
        self._watch = PoolWatch(self._channel)
        pool = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(self._channel)
        kind: type[HarnessError] = HarnessError
        try:
            error = pool.StartWorker(request, timeout=_CALL_SECONDS).error
        except grpc.RpcError as failure:
            error = _text(failure)
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

    def failure(self, limit: float = 0.0) -> str | None:
        """Returns why the pool can't be reached; pools don't report workers that died."""
        gone = None if self._watch is None else self._watch.gone(limit)
        return gone and (f"the worker pool at {self._pool} doesn't respond: {_GONE}: {gone}")

    @property
    def called(self) -> str:
        """A phrase for messages: the worker and its pool."""
        return f"worker of the pool at {self._pool}"

    def activity(self) -> HarnessActivity | None:
        """Returns the activity of the worker's process, which is found by the worker's name, or of the
        pool's processes.

        The result is None if neither is visible, for example for a pool on another machine or in a
        container.
        """
        found = self._process.activity()
        if found is None and self._keeper is not None:
            found = activity_of(self._keeper)
        return found

    @cached_property
    def _keeper(self) -> int | None:
        return process_listening(self._pool)

    @property
    def whereabouts(self) -> str:
        """A phrase that refers to the pool, whose own log may have more information."""
        return (
            f"the worker pool at {self._pool} started the worker, and the pool's log"
            " can contain the reason"
        )

    def look(self, connection: SdkConnection) -> None:
        """Checks whether the worker is a thread of the pool's process."""
        with self._looking:
            if not self._seen:
                self._seen = True
                process = common_process(self._pool, connection.peer)
                self._demand = None if process is None else Demand(process)

    def waits(self, connection: SdkConnection) -> bool | None:
        """Returns whether the pool's process leaves its core idle, if the worker is a thread of the process."""
        self.look(connection)
        share = None if self._demand is None else self._demand.share()
        return None if share is None else share < _WAITING_SHARE

    def wait_torn_down(self, limit: float, connection: SdkConnection) -> None:
        """Waits until the worker's process has exited, which its streams show.

        A worker that is a thread of the pool's process has no such end. It tears down right after
        it has ended its data, and stopping it doesn't interrupt that. The Go SDK ends its data only
        when it is stopped. The Java SDK never does, but ends its log after the teardown.
        """
        if self._demand is None:
            if connection.wait_data_ended(limit):
                connection.wait_gone(limit)
            return
        self.stop()
        if connection.wait_data_ended(limit):
            connection.wait_gone(min(limit, _THREAD_TEARDOWN_SECONDS))

    def stop(self) -> None:
        """Asks the pool to stop the worker; a pool that is gone has no worker to stop."""
        channel, self._channel = self._channel, None
        if channel is not None:
            with channel:
                _stop(channel, self._worker_id, _STOP_SECONDS)


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
        return _stop(channel, worker_id, limit)


def _stop(channel: grpc.Channel, worker_id: str, limit: float) -> str | None:
    request = beam_fn_api_pb2.StopWorkerRequest(worker_id=worker_id)
    pool = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel)
    try:
        error: str = pool.StopWorker(request, timeout=limit).error
        return error or None
    except grpc.RpcError as failure:
        return _text(failure)


def _text(failure: grpc.RpcError) -> str:
    if isinstance(failure, grpc.Call):
        return f"{failure.code().name}: {failure.details()}"
    return str(failure)
