"""Server side of the channel: gRPC service for worker processes, and the links to attached processes."""

from __future__ import annotations

import logging
import pickle
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

import grpc
from beam_runner_model.process_exits import ProcessExit
from beam_runner_storage.journal.codec import RecordFormatError

from beam_runner_runtime.channel.endpoints import (
    EndpointFactory,
    TokenIssuer,
    make_job_scope,
    make_stand_by_scope,
)
from beam_runner_runtime.channel.messages import (
    ConfirmExit,
    ExitProcess,
    FromServer,
    FromWorker,
    Heartbeat,
    JobWork,
    RunBundle,
    RunLoop,
    WorkerActivity,
    WorkerClosed,
    WorkerHello,
)
from beam_runner_runtime.channel.place import ChannelAddress, ChannelError
from beam_runner_runtime.channel.process_identity import kill_process
from beam_runner_runtime.channel.staged_files import encode_read_error
from beam_runner_runtime.channel.stand_by import LaneRef, ServeLane, StandByOrder
from beam_runner_runtime.channel.wire import decode_message, decode_request
from beam_runner_runtime.shutdown.causes import ShutdownEvent, ShutdownMessage
from beam_runner_runtime.shutdown.detections import Detector, log_detection
from beam_runner_runtime.shutdown.life import StateMachine
from beam_runner_runtime.shutdown.limits import LIMITS
from beam_runner_runtime.shutdown.states import WorkerState

if TYPE_CHECKING:
    # Import ServerIdentity only for type checks: workers import this module, and must not load the
    # libraries that create certificates.
    from beam_runner_runtime.channel.identity import ServerIdentity

SERVICE = "beam_spark_executor.Channel"
_PING_MS = round(LIMITS.keepalive_answer_seconds * 1000)
OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A machine that crashes doesn't close its connections. Keepalive pings detect its loss.
    ("grpc.keepalive_time_ms", round(LIMITS.keepalive_seconds * 1000)),
    ("grpc.keepalive_timeout_ms", _PING_MS),
    # Without `ping_timeout_ms`, gRPC waits one minute for the answer to a ping, despite
    # `keepalive_timeout_ms`.
    ("grpc.http2.ping_timeout_ms", _PING_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
)
"""gRPC options for both sides of the channel."""
_MAX_STREAMS = 2000
_SHUTDOWN_MESSAGES = ShutdownMessage.__members__
_LOGGER = logging.getLogger(__name__)


class WorkerLink:
    """Server's connection to one worker process, with the state and the activity of the process.

    Attributes:
        heard: time of the last message (``time.monotonic``).
        doing: activity that the process reported last.
        doing_since: time of the first report of this activity.
        end: exit status that the parent of the process recorded; None while the process runs, or if
            unknown.
    """

    def __init__(self, hello: WorkerHello) -> None:
        self.hello = hello
        self.end: ProcessExit | None = None
        self.heard = self.doing_since = time.monotonic()
        self.doing = WorkerActivity.ORDER
        self._commands: queue.SimpleQueue[FromServer | None] = queue.SimpleQueue()
        self._life = StateMachine(WorkerState.WORKING, self.name)

    @property
    def name(self) -> str:
        """Process id and host of the worker process, for log messages."""
        return f"worker process {self.hello.pid} on {self.hello.host}"

    @property
    def state(self) -> WorkerState:
        """State of the process, derived from the messages so far."""
        return self._life.state

    def send(self, command: FromServer) -> None:
        """Sends a command to the process. Does nothing if the process has exited.

        User code in C can prevent a process from handling `ExitProcess`. A process on this machine that
        doesn't exit after `ExitProcess` is therefore killed after a delay.
        """
        if isinstance(command, RunBundle | RunLoop):
            self._life.apply_cause(ShutdownEvent.WORK_SENT)
        elif message := _SHUTDOWN_MESSAGES.get(type(command).__name__):
            self._life.apply_cause(message)
        self._commands.put(command)
        if isinstance(command, ExitProcess):
            killer = threading.Timer(LIMITS.kill_seconds, self._kill_if_alive)
            killer.daemon = True
            killer.start()

    def handle_worker_closed(self) -> None:
        """Handles the message `WorkerClosed`: permits the process to exit."""
        self._life.apply_cause(ShutdownMessage.WorkerClosed)
        self.send(ConfirmExit())

    def handle_exit(self) -> None:
        """Records the exit or loss of the process. Reports an unexpected loss."""
        before = self._life.apply_cause(ShutdownEvent.EXITED)
        if before not in (WorkerState.CLOSED, WorkerState.ABORTING):
            log_detection(Detector.CHANNEL, f"{self.name}, {before.name}")

    def _kill_if_alive(self) -> None:
        if self.state is not WorkerState.GONE:
            log_detection(Detector.ABORT, self.name)
            self.kill()

    def record_heartbeat(self, beat: Heartbeat) -> None:
        """Records the activity that the process reported in a heartbeat."""
        if beat.doing is not self.doing:
            self.doing, self.doing_since = beat.doing, time.monotonic()

    def kill(self) -> None:
        """Kills the worker process, if the process still exists on this machine."""
        kill_process(self.hello.pid, self.hello.birth)

    def close(self) -> None:
        """Ends the stream of commands."""
        self._commands.put(None)

    def iterate_commands(self) -> Iterator[bytes]:
        """Yields the encoded commands until the stream is closed."""
        while (command := self._commands.get()) is not None:
            yield pickle.dumps(command)


class JobMessageHandler(Protocol):
    """Interface of a running job that the channel server needs. The server calls it from its own threads."""

    def make_job_work(self) -> JobWork:
        """Returns the plan and settings of the job."""

    def read_artifact(self, sha256: str) -> Iterator[bytes]:
        """Yields the chunks of a staged file."""

    def handle_worker_attached(self, link: WorkerLink) -> None:
        """Called when a worker process of the job has connected."""

    def handle_message(self, link: WorkerLink, message: FromWorker) -> None:
        """Called for each message of a worker process."""

    def handle_worker_detached(self, link: WorkerLink) -> None:
        """Called when the stream of a worker process has ended, because the process exited or was killed."""


class ChannelServer:
    """Server that provides the channel for all jobs on one port.

    Args:
        place: listening address, and the address that executors use.
        find_job: function that returns the job with an id, or None.
        stand_by_order: function that returns the order for the stand-by process with a number; can
            block.
        identity: key and certificate of the server; None disables encryption.

    Raises:
        ChannelError: If the server can't listen at the address.
    """

    def __init__(
        self,
        place: ChannelAddress,
        find_job: Callable[[str], JobMessageHandler | None],
        stand_by_order: Callable[[int], StandByOrder],
        identity: ServerIdentity | None = None,
    ) -> None:
        self._find_job = find_job
        self._stand_by_order = stand_by_order
        tokens = TokenIssuer()
        # Use many threads: each open stream occupies a thread until the worker process exits.
        self._threads = ThreadPoolExecutor(_MAX_STREAMS, thread_name_prefix="channel")
        self._server = grpc.server(
            self._threads,
            interceptors=(_TokenCheck(tokens),),
            # Disable port reuse: two servers at one port would receive each other's calls.
            options=(*OPTIONS, ("grpc.so_reuseport", 0)),
        )
        self._server.add_generic_rpc_handlers((self._create_rpc_handlers(),))
        address = place.executor_address(self._open_port(place, identity))
        certificate = "" if identity is None else identity.certificate.decode()
        self.endpoints = EndpointFactory(address, tokens, certificate)
        """Factory of the endpoints of this server."""

    def _open_port(self, place: ChannelAddress, identity: ServerIdentity | None) -> int:
        try:
            if identity is None:
                return self._server.add_insecure_port(place.listen_address)
            pair = ((identity.key, identity.certificate),)
            return self._server.add_secure_port(
                place.listen_address, grpc.ssl_server_credentials(pair)
            )
        except RuntimeError as error:
            raise ChannelError(
                f"Can't listen for executors at {place.listen_address}: the port is taken, or"
                " the address belongs to another machine. Change --channel-host or"
                " --channel-port"
            ) from error

    def start(self) -> None:
        """Starts the gRPC server, which then accepts calls."""
        self._server.start()

    def stop(self) -> None:
        """Stops the server and ends all streams."""
        self._server.stop(grace=0.5).wait(LIMITS.channel_stop_seconds)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _create_rpc_handlers(self) -> grpc.GenericRpcHandler:
        unary = grpc.unary_unary_rpc_method_handler
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "JobWork": unary(self._handle_job_work),
                "Artifact": grpc.unary_stream_rpc_method_handler(self._handle_artifact),
                "StandByOrder": unary(self._handle_stand_by),
                "Knock": unary(lambda request, context: b""),
                "Attach": grpc.stream_stream_rpc_method_handler(self._handle_attach),
            },
        )

    def _check_token_scope(self, wanted: str, context: grpc.ServicerContext) -> None:
        opens = self.endpoints.tokens.verify_token(_read_token(context.invocation_metadata()))
        if opens != wanted:
            context.abort(
                grpc.StatusCode.PERMISSION_DENIED,
                f"the token grants access to {opens}, not to {wanted}",
            )

    def _find_authorized_job(self, job_id: str, context: grpc.ServicerContext) -> JobMessageHandler:
        self._check_token_scope(make_job_scope(job_id), context)
        job = self._find_job(job_id)
        if job is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"job {job_id!r} isn't running on this server")
        assert job is not None
        return job

    def _handle_job_work(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        (job_id,) = _decode_request_or_abort(request, context, str)
        return pickle.dumps(self._find_authorized_job(job_id, context).make_job_work())

    def _handle_stand_by(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        (number,) = _decode_request_or_abort(request, context, int)
        self._check_token_scope(make_stand_by_scope(number), context)
        order = self._stand_by_order(number)
        if isinstance(order, ServeLane):
            endpoint = self.endpoints.make_endpoint(make_job_scope(order.job_id))
            return pickle.dumps(LaneRef(endpoint, order.job_id, order.lane))
        return pickle.dumps(order)

    def _handle_artifact(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        job_id, sha256 = _decode_request_or_abort(request, context, str, str)
        try:
            yield from self._find_authorized_job(job_id, context).read_artifact(sha256)
        except KeyError:
            context.abort(grpc.StatusCode.NOT_FOUND, f"job {job_id!r} has no artifact {sha256}")
        except OSError as error:
            context.abort(grpc.StatusCode.DATA_LOSS, encode_read_error(error))

    def _handle_attach(
        self, requests: Iterator[bytes], context: grpc.ServicerContext
    ) -> Iterator[bytes]:
        hello = _decode_hello_or_abort(next(requests), context)
        job = self._find_authorized_job(hello.job_id, context)
        link = WorkerLink(hello)
        job.handle_worker_attached(link)
        self._threads.submit(self._receive_messages, job, link, requests)
        yield from link.iterate_commands()

    def _receive_messages(
        self, job: JobMessageHandler, link: WorkerLink, requests: Iterator[bytes]
    ) -> None:
        try:
            for request in requests:
                message = decode_message(request)
                link.heard = time.monotonic()
                if isinstance(message, Heartbeat):
                    link.record_heartbeat(message)
                if not isinstance(message, Heartbeat) or message.begun:
                    job.handle_message(link, message)
                if isinstance(message, WorkerClosed):
                    link.handle_worker_closed()
        except grpc.RpcError:
            _LOGGER.debug("the stream of worker process %s is closed", link.hello.pid)
        except RecordFormatError as error:
            _LOGGER.warning(
                "closing the stream of worker process %s, which sent an invalid message: %s",
                link.hello.pid,
                error,
            )
        finally:
            link.handle_exit()
            job.handle_worker_detached(link)
            link.close()
            # Kill a worker process whose stream broke: user code possibly closed its file descriptors.
            link.kill()


def _decode_request_or_abort(
    encoded: bytes, context: grpc.ServicerContext, *types: type
) -> tuple[Any, ...]:
    try:
        return decode_request(encoded, *types)
    except RecordFormatError as error:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        raise


def _decode_hello_or_abort(encoded: bytes, context: grpc.ServicerContext) -> WorkerHello:
    try:
        hello = decode_message(encoded)
        if isinstance(hello, WorkerHello):
            return hello
        raise RecordFormatError(
            "the first message on a worker process's stream isn't Hello: another program has "
            "connected to this port"
        )
    except RecordFormatError as error:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        raise


class _TokenCheck(grpc.ServerInterceptor):
    """gRPC interceptor that rejects calls without a valid token before the server reads the
    request.

    After this check, the handler of the call checks that the token is for the requested job.
    """

    def __init__(self, tokens: TokenIssuer) -> None:
        self._tokens = tokens

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler | None:
        handler = continuation(handler_call_details)
        shown = _read_token(handler_call_details.invocation_metadata)
        if handler is None or self._tokens.verify_token(shown) is not None:
            return handler
        return _REFUSAL


def _read_token(metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
    """Returns the token in the authorization metadata of a call. Returns "" without such metadata."""
    return str(dict(metadata or ()).get("authorization", "")).removeprefix("Bearer ")


def _reject_call(requests: Any, context: grpc.ServicerContext) -> None:
    context.abort(grpc.StatusCode.UNAUTHENTICATED, "the channel's token is missing or wrong")


# Use a handler for streams to reject all calls: before a unary handler runs, gRPC reads the request.
_REFUSAL = grpc.stream_stream_rpc_method_handler(_reject_call)
