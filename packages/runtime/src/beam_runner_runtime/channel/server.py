"""The server's end of the channel."""

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
from beam_runner_storage.journal.codec import FormError

from beam_runner_runtime.channel.births import kill
from beam_runner_runtime.channel.endpoints import Endpoints, Tokens, to_job, to_stand_by
from beam_runner_runtime.channel.messages import (
    Beat,
    Closed,
    Doing,
    ExitNow,
    FromServer,
    FromWorker,
    Goodbye,
    Hello,
    JobWork,
    RunBundle,
    RunLoop,
)
from beam_runner_runtime.channel.place import ChannelError, ChannelPlace
from beam_runner_runtime.channel.stand_by import LaneRef, ServeLane, StandByOrder
from beam_runner_runtime.channel.wire import decode_message, decode_request
from beam_runner_runtime.shutdown.causes import Event, ShutdownMessage
from beam_runner_runtime.shutdown.detections import Detector, notice
from beam_runner_runtime.shutdown.life import Life
from beam_runner_runtime.shutdown.limits import LIMITS
from beam_runner_runtime.shutdown.states import WorkerState

if TYPE_CHECKING:
    # Workers import this module, and need nothing of what makes certificates.
    from beam_runner_runtime.channel.identity import Identity

SERVICE = "beam_spark_executor.Channel"
_PING_MS = round(LIMITS.keepalive_answer_seconds * 1000)
OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A host that vanishes closes no connection: it is noticed by its silence.
    ("grpc.keepalive_time_ms", round(LIMITS.keepalive_seconds * 1000)),
    ("grpc.keepalive_timeout_ms", _PING_MS),
    # Without it gRPC waits a minute for a ping's answer, whatever the line above says.
    ("grpc.http2.ping_timeout_ms", _PING_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
)
"""Of both ends of the channel."""
_MAX_STREAMS = 2000
_ABOUT_SHUTDOWN = ShutdownMessage.__members__
_LOGGER = logging.getLogger(__name__)


class WorkerLink:
    """One attached worker process, as the server sees it.

    Attributes:
        heard: when (``time.monotonic``) it said something last.
        doing: what it says that it does.
        doing_since: since when it has said so.
    """

    def __init__(self, hello: Hello) -> None:
        self.hello = hello
        self.heard = self.doing_since = time.monotonic()
        self.doing = Doing.ORDER
        self._commands: queue.SimpleQueue[FromServer | None] = queue.SimpleQueue()
        self._life = Life(WorkerState.WORKING, self.name)

    @property
    def name(self) -> str:
        """The process, for people."""
        return f"worker process {self.hello.pid} on {self.hello.host}"

    @property
    def state(self) -> WorkerState:
        """The state of the process, by the messages so far."""
        return self._life.state

    def send(self, command: FromServer) -> None:
        """Sends a command; does nothing if the process is gone.

        One that is told to `ExitNow` is killed if it does not do so, provided that it runs on this
        machine: user code in C may keep it from hearing anything.
        """
        if isinstance(command, RunBundle | RunLoop):
            self._life.take(Event.WORK_SENT)
        elif message := _ABOUT_SHUTDOWN.get(type(command).__name__):
            self._life.take(message)
        self._commands.put(command)
        if isinstance(command, ExitNow):
            killer = threading.Timer(LIMITS.kill_seconds, self._insist)
            killer.daemon = True
            killer.start()

    def closed(self) -> None:
        """Takes note of `Closed`, and lets the process exit."""
        self._life.take(ShutdownMessage.Closed)
        self.send(Goodbye())

    def gone(self) -> None:
        """Takes note that the process exited or can't be reached; logs a process that was to go on."""
        before = self._life.take(Event.EXITED)
        if before not in (WorkerState.CLOSED, WorkerState.ABORTING):
            notice(Detector.CHANNEL, f"{self.name}, {before.name}")

    def _insist(self) -> None:
        if self.state is not WorkerState.GONE:
            notice(Detector.ABORT, self.name)
            self.kill()

    def beats(self, beat: Beat) -> None:
        """It has said what it does."""
        if beat.doing is not self.doing:
            self.doing, self.doing_since = beat.doing, time.monotonic()

    def kill(self) -> None:
        """Kills the process from outside, if it still is there and on this machine."""
        kill(self.hello.pid, self.hello.birth)

    def close(self) -> None:
        """Ends the stream of commands."""
        self._commands.put(None)

    def commands(self) -> Iterator[bytes]:
        """The encoded commands, until closed."""
        while (command := self._commands.get()) is not None:
            yield pickle.dumps(command)


class JobPeer(Protocol):
    """What the channel asks of a running job, from threads of the channel."""

    def job_work(self) -> JobWork:
        """All that a process must know of the job."""

    def artifact(self, sha256: str) -> Iterator[bytes]:
        """A staged file in pieces."""

    def attached(self, link: WorkerLink) -> None:
        """A worker process has begun to work for the job."""

    def received(self, link: WorkerLink, message: FromWorker) -> None:
        """A worker process says something."""

    def detached(self, link: WorkerLink) -> None:
        """The stream of a worker process has ended: it exited or was killed."""


class ChannelServer:
    """Serves the channel for all jobs on one port.

    Args:
        place: where to listen, and what executors call that.
        find_job: the job with an id, or None.
        stand_by_order: what the task that stands by under a number is to do; may take a while.
        identity: by which executors know it; without one nothing is encrypted.

    Raises:
        ChannelError: it can't listen there.
    """

    def __init__(
        self,
        place: ChannelPlace,
        find_job: Callable[[str], JobPeer | None],
        stand_by_order: Callable[[int], StandByOrder],
        identity: Identity | None = None,
    ) -> None:
        self._find_job = find_job
        self._stand_by_order = stand_by_order
        tokens = Tokens()
        # An open stream occupies a thread for as long as its process lives.
        self._threads = ThreadPoolExecutor(_MAX_STREAMS, thread_name_prefix="channel")
        self._server = grpc.server(
            self._threads,
            interceptors=(_TokenCheck(tokens),),
            # Else two servers at one port would get each other's calls.
            options=(*OPTIONS, ("grpc.so_reuseport", 0)),
        )
        self._server.add_generic_rpc_handlers((self._handlers(),))
        address = place.address(self._listen(place, identity))
        certificate = "" if identity is None else identity.certificate.decode()
        self.endpoints = Endpoints(address, tokens, certificate)
        """Where it is, for each who may call it."""

    def _listen(self, place: ChannelPlace, identity: Identity | None) -> int:
        try:
            if identity is None:
                return self._server.add_insecure_port(place.binding)
            pair = ((identity.key, identity.certificate),)
            return self._server.add_secure_port(place.binding, grpc.ssl_server_credentials(pair))
        except RuntimeError as error:
            raise ChannelError(
                f"the channel for executors can't listen at {place.binding}: the port is taken, or the address is not"
                " this machine's; --channel-host and --channel-port name others"
            ) from error

    def start(self) -> None:
        """Begins to serve."""
        self._server.start()

    def stop(self) -> None:
        """Ends all streams."""
        self._server.stop(grace=0.5).wait(LIMITS.channel_stop_seconds)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _handlers(self) -> grpc.GenericRpcHandler:
        unary = grpc.unary_unary_rpc_method_handler
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "JobWork": unary(self._job_work),
                "Artifact": grpc.unary_stream_rpc_method_handler(self._artifact),
                "StandByOrder": unary(self._answer_stand_by),
                "Knock": unary(lambda request, context: b""),
                "Attach": grpc.stream_stream_rpc_method_handler(self._attach),
            },
        )

    def _check(self, wanted: str, context: grpc.ServicerContext) -> None:
        opens = self.endpoints.tokens.opened_by(_shown(context.invocation_metadata()))
        if opens != wanted:
            context.abort(
                grpc.StatusCode.PERMISSION_DENIED, f"this token opens {opens}, not {wanted}"
            )

    def _job(self, job_id: str, context: grpc.ServicerContext) -> JobPeer:
        self._check(to_job(job_id), context)
        job = self._find_job(job_id)
        if job is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"no job {job_id!r} is running here")
        assert job is not None
        return job

    def _job_work(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        (job_id,) = _request(request, context, str)
        return pickle.dumps(self._job(job_id, context).job_work())

    def _answer_stand_by(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        (number,) = _request(request, context, int)
        self._check(to_stand_by(number), context)
        order = self._stand_by_order(number)
        if isinstance(order, ServeLane):
            endpoint = self.endpoints.of(to_job(order.job_id))
            return pickle.dumps(LaneRef(endpoint, order.job_id, order.lane))
        return pickle.dumps(order)

    def _artifact(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        job_id, sha256 = _request(request, context, str, str)
        try:
            yield from self._job(job_id, context).artifact(sha256)
        except KeyError:
            context.abort(grpc.StatusCode.NOT_FOUND, f"job {job_id!r} has no artifact {sha256}")

    def _attach(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        hello = _hello(next(requests), context)
        job = self._job(hello.job_id, context)
        link = WorkerLink(hello)
        job.attached(link)
        self._threads.submit(self._receive, job, link, requests)
        yield from link.commands()

    def _receive(self, job: JobPeer, link: WorkerLink, requests: Iterator[bytes]) -> None:
        try:
            for request in requests:
                message = decode_message(request)
                link.heard = time.monotonic()
                if isinstance(message, Beat):
                    link.beats(message)
                if not isinstance(message, Beat) or message.begun:
                    job.received(link, message)
                if isinstance(message, Closed):
                    link.closed()
        except grpc.RpcError:
            _LOGGER.debug("worker process %s is gone", link.hello.pid)
        except FormError as error:
            _LOGGER.warning("worker process %s is given up, it sends %s", link.hello.pid, error)
        finally:
            link.gone()
            job.detached(link)
            link.close()
            # What can't be reached any more is not to go on: its descriptors may be broken.
            link.kill()


def _request(encoded: bytes, context: grpc.ServicerContext, *types: type) -> tuple[Any, ...]:
    try:
        return decode_request(encoded, *types)
    except FormError as error:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        raise


def _hello(encoded: bytes, context: grpc.ServicerContext) -> Hello:
    try:
        hello = decode_message(encoded)
        if isinstance(hello, Hello):
            return hello
        raise FormError("a worker process says hello first")
    except FormError as error:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        raise


class _TokenCheck(grpc.ServerInterceptor):
    """Refuses every call without one of the server's tokens before a byte of it is read.

    What the token opens is compared with what is asked for when that is known.
    """

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler | None:
        handler = continuation(handler_call_details)
        shown = _shown(handler_call_details.invocation_metadata)
        if handler is None or self._tokens.opened_by(shown) is not None:
            return handler
        return _REFUSAL


def _shown(metadata: Iterable[tuple[str, str | bytes]] | None) -> str:
    """The token that came with a call, or what else did; empty if nothing."""
    return str(dict(metadata or ()).get("authorization", "")).removeprefix("Bearer ")


def _refuse(requests: Any, context: grpc.ServicerContext) -> None:
    context.abort(grpc.StatusCode.UNAUTHENTICATED, "the channel's token is missing or wrong")


# As a stream, whatever was called: the request of a unary call would be read first.
_REFUSAL = grpc.stream_stream_rpc_method_handler(_refuse)
