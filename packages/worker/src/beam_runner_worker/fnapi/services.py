"""gRPC services that an SDK harness uses while it runs bundles: control, data, state and logging.

Each service passes messages between a stream and a :class:`SdkConnection`, which it finds by the
worker id that the SDK sends. The connection and the stage interpret the messages.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

import grpc
from beam_runner_model.threads import start_essential_thread

from beam_runner_worker._protos import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from beam_runner_worker.fnapi.connection import SdkConnection
from beam_runner_worker.log_records import LogRecord, Severity
from beam_runner_worker.ports import LogSink

_GO_CLIENT = "/runners/universal/runnerlib/"
"""Source folder of the Go SDK's code that prints the messages of a job."""
_JAVA_ORPHANS = ".io.grpc.internal.ManagedChannelOrphanWrapper"
"""Logger of gRPC's error message that the Java SDK has left channels open."""


class SdkRegistry:
    """Registry of the SDK harnesses that may use the server, by worker id."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: dict[str, SdkConnection] = {}
        self._descriptors: dict[str, beam_fn_api_pb2.ProcessBundleDescriptor] = {}

    def add_connection(self, connection: SdkConnection) -> None:
        """Adds an SDK, which may then use the server."""
        with self._lock:
            self._connections[connection.worker_id] = connection

    def remove_connection(self, connection: SdkConnection) -> None:
        """Removes an SDK, which may no longer use the server."""
        with self._lock:
            self._connections.pop(connection.worker_id, None)

    def register_descriptor(self, descriptor: beam_fn_api_pb2.ProcessBundleDescriptor) -> None:
        """Stores the descriptor of a stage for SDKs that request it."""
        with self._lock:
            self._descriptors[descriptor.id] = descriptor

    def find_descriptor(self, descriptor_id: str) -> beam_fn_api_pb2.ProcessBundleDescriptor | None:
        """Returns the descriptor with an id; None if the id is unknown."""
        with self._lock:
            return self._descriptors.get(descriptor_id)

    def find_calling_sdk(self, context: grpc.ServicerContext) -> SdkConnection:
        """Returns the connection of the SDK that makes a call. Aborts calls with an unknown worker id."""
        worker_id = dict(context.invocation_metadata()).get("worker_id", "")
        with self._lock:
            connection = self._connections.get(str(worker_id))
        if connection is None:
            abort_call(
                context, grpc.StatusCode.PERMISSION_DENIED, f"unknown worker id {worker_id!r}"
            )
        return connection

    def list_connected_sdks(self) -> list[SdkConnection]:
        """Returns the connections of all SDKs that have connected and are usable."""
        with self._lock:
            connections = list(self._connections.values())
        return [one for one in connections if one.is_connected and one.is_usable]

    def find_sdk_by_instruction(
        self, instruction_id: str, context: grpc.ServicerContext
    ) -> SdkConnection:
        """Returns the connection of the SDK that runs a bundle, for calls without a worker id. Aborts
        the call if no SDK runs the bundle.
        """
        with self._lock:
            connections = list(self._connections.values())
        found = (c for c in connections if c.find_bundle(instruction_id) is not None)
        connection = next(found, None)
        if connection is None:
            reason = f"the call has no worker id, and no bundle {instruction_id!r} is running"
            abort_call(context, grpc.StatusCode.PERMISSION_DENIED, reason)
        return connection


def abort_call(context: grpc.ServicerContext, code: grpc.StatusCode, reason: str) -> NoReturn:
    """Aborts a gRPC call with an error."""
    context.abort(code, reason)
    raise AssertionError("gRPC's abort returned instead of raising an error")


def _open_stream(workers: SdkRegistry, context: grpc.ServicerContext, name: str) -> SdkConnection:
    connection = workers.find_calling_sdk(context)
    agent = str(dict(context.invocation_metadata()).get("user-agent", ""))
    if not connection.register_stream(name, context.peer(), agent):
        abort_call(
            context, grpc.StatusCode.ALREADY_EXISTS, f"the worker already has a {name} stream"
        )
    return connection


def _read_in_background(
    connection: SdkConnection,
    name: str,
    messages: Iterable[Any],
    take: Callable[[Any], None],
    ended: Callable[[], None],
) -> None:
    """Reads the messages of a stream in a separate thread, and passes each message to a callback.

    If the callback raises an exception, the SDK is marked as lost, because no further messages are
    read.
    """

    def read_messages() -> None:
        try:
            for message in messages:
                take(message)
        except grpc.RpcError:
            return
        ended()

    def mark_connection_lost(error: BaseException) -> None:
        connection.mark_lost(
            f"the server stopped reading the {name} stream of the SDK:"
            f" {type(error).__name__}: {error}"
        )

    start_essential_thread(read_messages, f"fnapi-{name}", mark_connection_lost)


def _call_at_end(context: grpc.ServicerContext, callback: Callable[[], None]) -> None:
    if not context.add_callback(callback):
        callback()


class ControlService(beam_fn_api_pb2_grpc.BeamFnControlServicer):
    """Service for instructions to SDKs, and their responses."""

    def __init__(self, workers: SdkRegistry) -> None:
        self._workers = workers

    def Control(
        self,
        responses: Iterator[beam_fn_api_pb2.InstructionResponse],
        context: grpc.ServicerContext,
    ) -> Iterator[beam_fn_api_pb2.InstructionRequest]:
        """Serves the control stream of an SDK harness: sends instructions and receives responses until
        the harness ends.
        """
        connection = _open_stream(self._workers, context, "control")

        def close_stream() -> None:
            connection.unregister_stream("control")
            connection.instructions.put(None)

        _call_at_end(context, close_stream)
        _read_in_background(
            connection, "control", responses, connection.dispatch_response, lambda: None
        )
        yield from iter(connection.instructions.get, None)

    def GetProcessBundleDescriptor(
        self,
        request: beam_fn_api_pb2.GetProcessBundleDescriptorRequest,
        context: grpc.ServicerContext,
    ) -> beam_fn_api_pb2.ProcessBundleDescriptor:
        """Returns the descriptor of a stage."""
        self._workers.find_calling_sdk(context)
        wanted = request.process_bundle_descriptor_id
        descriptor = self._workers.find_descriptor(wanted)
        if descriptor is None:
            abort_call(context, grpc.StatusCode.NOT_FOUND, f"no descriptor {wanted!r}")
        return descriptor


class DataService(beam_fn_api_pb2_grpc.BeamFnDataServicer):
    """Service for the elements of all bundles of an SDK, on one stream."""

    def __init__(self, workers: SdkRegistry) -> None:
        self._workers = workers

    def Data(
        self, elements: Iterator[beam_fn_api_pb2.Elements], context: grpc.ServicerContext
    ) -> Iterator[beam_fn_api_pb2.Elements]:
        """Serves the data stream: sends and receives elements and timers. A message counts as sent
        when gRPC requests the next message.
        """
        connection = _open_stream(self._workers, context, "data")

        def close_stream() -> None:
            connection.unregister_stream("data")
            connection.outgoing.put(None)

        _call_at_end(context, close_stream)
        _read_in_background(
            connection, "data", elements, connection.dispatch_elements, connection.record_shutdown
        )
        for message, bundle in iter(connection.outgoing.get, None):
            yield message
            bundle.record_sent_message()


class StateService(beam_fn_api_pb2_grpc.BeamFnStateServicer):
    """Service for side inputs and user state of running bundles."""

    def __init__(self, workers: SdkRegistry) -> None:
        self._workers = workers

    def State(
        self, requests: Iterator[beam_fn_api_pb2.StateRequest], context: grpc.ServicerContext
    ) -> Iterator[beam_fn_api_pb2.StateResponse]:
        """Answers state requests in order. An error is also sent as an answer.

        Python SDKs before 2.63 send no worker id on this stream. The bundle of their first request
        identifies the SDK.
        """
        connection = None
        if dict(context.invocation_metadata()).get("worker_id"):
            connection = self._workers.find_calling_sdk(context)
        for request in requests:
            if connection is None:
                connection = self._workers.find_sdk_by_instruction(request.instruction_id, context)
            yield _answer_state_request(connection, request)


def _answer_state_request(
    connection: SdkConnection, request: beam_fn_api_pb2.StateRequest
) -> beam_fn_api_pb2.StateResponse:
    bundle = connection.find_bundle(request.instruction_id)
    if bundle is None:
        reason = f"no bundle {request.instruction_id!r} is running"
        return beam_fn_api_pb2.StateResponse(id=request.id, error=reason)
    return bundle.state.answer_request(request, bundle.fail_bundle)


class LoggingService(beam_fn_api_pb2_grpc.BeamFnLoggingServicer):
    """Service for the logs of SDKs."""

    def __init__(self, workers: SdkRegistry, sink: LogSink) -> None:
        self._workers = workers
        self._sink = sink

    def Logging(
        self, batches: Iterator[beam_fn_api_pb2.LogEntry.List], context: grpc.ServicerContext
    ) -> Iterator[beam_fn_api_pb2.LogControl]:
        """Passes the log entries of an SDK to the log sink until the SDK ends the stream. Never sends a message."""
        connection = self._workers.find_calling_sdk(context)
        try:
            for batch in batches:
                records = [
                    _convert_entry(e) for e in batch.log_entries if not _is_irrelevant_entry(e)
                ]
                connection.last_lines.extend(record.message for record in records)
                self._sink.log_records(records)
        except grpc.RpcError:
            return  # the control stream reports the loss of the SDK
        connection.record_shutdown()
        yield from ()


def _is_irrelevant_entry(entry: beam_fn_api_pb2.LogEntry) -> bool:
    """Returns True if a log entry is irrelevant to the job and must be dropped.

    Java's PortableRunner raises the first error message of a job as an exception. So irrelevant
    errors must be dropped.
    """
    return _is_echoed_message(entry) or entry.log_location.endswith(_JAVA_ORPHANS)


def _is_echoed_message(entry: beam_fn_api_pb2.LogEntry) -> bool:
    """Returns True if a log entry repeats a job message that the client's program printed.

    Go programs that host the SDK harness echo messages.

    With LOOPBACK, the SDK harness runs in the client's program and sends the program's whole log,
    including messages from this server. If the server passed such a message on, the program would
    print it again, in an endless loop.
    """
    return _GO_CLIENT in entry.log_location


def _convert_entry(entry: beam_fn_api_pb2.LogEntry) -> LogRecord:
    known = entry.severity in Severity.__members__.values()
    return LogRecord(
        severity=Severity(entry.severity) if known else Severity.UNSPECIFIED,
        time_ms=entry.timestamp.seconds * 1000 + entry.timestamp.nanos // 1_000_000,
        message=entry.message,
        trace=entry.trace,
        transform_id=entry.transform_id,
        location=entry.log_location,
    )
