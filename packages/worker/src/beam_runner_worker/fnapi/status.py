"""Status reports of SDK harnesses. A report mainly contains the stacks of the harness's threads.

Harnesses that got the status endpoint at their start (in containers and processes) keep a stream
open for status requests. For Python harnesses without this endpoint (in worker pools and in the
client's program), the runner sends a special bundle. The report is a text in the format of the SDK.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import attrs
import grpc
from beam_runner_model.threads import run_concurrently, start_helper_thread

from beam_runner_worker._protos import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from beam_runner_worker.fnapi.connection import SdkConnection
from beam_runner_worker.fnapi.peers import find_peer_process
from beam_runner_worker.fnapi.services import SdkRegistry

_LONGEST = 1 << 20
_PYTHON = "grpc-python"


@attrs.frozen
class SdkStatus:
    """Status report of one SDK harness.

    Attributes:
        process: process id of the harness; None if the process isn't visible on this machine.
        text: the report in the format of the SDK.
    """

    environment: str
    process: int | None
    text: str


class _StatusStream:
    """Status stream of one harness, with a queue of outgoing requests."""

    def __init__(self, connection: SdkConnection) -> None:
        self.connection = connection
        self.requests: queue.SimpleQueue[beam_fn_api_pb2.WorkerStatusRequest | None] = (
            queue.SimpleQueue()
        )


def _request_thread_dump(
    connection: SdkConnection, endpoint: str, seconds: float
) -> tuple[SdkStatus, ...]:
    # Import the module only when it is needed, because the import takes seconds.
    from beam_runner_worker.fnapi.thread_dumps import request_thread_dump

    text = request_thread_dump(connection, endpoint, seconds)
    if not text:
        return ()
    return (SdkStatus(connection.environment, find_peer_process(connection.peer), text[:_LONGEST]),)


class StatusService(beam_fn_api_pb2_grpc.BeamFnWorkerStatusServicer):
    """Service that requests status reports from all connected harnesses."""

    def __init__(self, workers: SdkRegistry) -> None:
        self._workers = workers
        self.endpoint = ""
        """Address of all services; set after the server has opened its port."""
        self._numbers = itertools.count(1)
        self._changed = threading.Condition()
        self._streams: list[_StatusStream] = []
        self._answers: dict[str, str] = {}

    def WorkerStatus(
        self,
        responses: Iterator[beam_fn_api_pb2.WorkerStatusResponse],
        context: grpc.ServicerContext,
    ) -> Iterator[beam_fn_api_pb2.WorkerStatusRequest]:
        """Serves the status stream of a harness: sends requests and receives reports until the harness ends."""
        stream = _StatusStream(self._workers.find_calling_sdk(context))
        with self._changed:
            self._streams.append(stream)

        def remove_stream() -> None:
            with self._changed:
                if stream in self._streams:
                    self._streams.remove(stream)
            stream.requests.put(None)

        if not context.add_callback(remove_stream):
            remove_stream()
        start_helper_thread(partial(self._read_responses, responses, remove_stream), "fnapi-status")
        yield from iter(stream.requests.get, None)

    def request_reports(self, seconds: float) -> tuple[SdkStatus, ...]:
        """Requests status reports from all harnesses, and returns the reports that arrive within the time limit."""
        with self._changed:
            asked = {f"status-{next(self._numbers)}": stream for stream in self._streams}
            with_stream = [stream.connection for stream in self._streams]
        by_bundle = [
            one
            for one in self._workers.list_connected_sdks()
            if one not in with_stream and one.user_agent.startswith(_PYTHON)
        ]
        calls: list[Callable[[], tuple[SdkStatus, ...]]] = [
            partial(self._request_over_streams, asked, seconds),
            *(
                partial(_request_thread_dump, connection, self.endpoint, seconds)
                for connection in by_bundle
            ),
        ]
        found = run_concurrently(lambda call: call(), calls, len(calls), "fnapi-status")
        return tuple(itertools.chain(*found))

    def _request_over_streams(
        self, asked: Mapping[str, _StatusStream], seconds: float
    ) -> tuple[SdkStatus, ...]:
        with self._changed:
            for request_id, stream in asked.items():
                stream.requests.put(beam_fn_api_pb2.WorkerStatusRequest(id=request_id))
            self._changed.wait_for(lambda: asked.keys() <= self._answers.keys(), seconds)
            answers, self._answers = self._answers, {}
        return tuple(
            SdkStatus(
                stream.connection.environment,
                find_peer_process(stream.connection.peer),
                answers[request_id][:_LONGEST],
            )
            for request_id, stream in asked.items()
            if request_id in answers
        )

    def _read_responses(
        self,
        responses: Iterator[beam_fn_api_pb2.WorkerStatusResponse],
        remove_stream: Callable[[], None],
    ) -> None:
        try:
            for response in responses:
                with self._changed:
                    self._answers[response.id] = response.status_info or response.error
                    self._changed.notify_all()
        except grpc.RpcError:
            pass
        finally:
            remove_stream()
