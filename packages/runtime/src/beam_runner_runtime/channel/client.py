"""Client side of the channel, for worker processes."""

from __future__ import annotations

import logging
import pickle
import queue
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import grpc
from beam_runner_model.observation import ThreadStack
from beam_runner_model.threads import start_essential_thread, start_helper_thread
from beam_runner_worker.errors import HarnessError

from beam_runner_runtime.channel import stacks
from beam_runner_runtime.channel.messages import (
    DumpStacks,
    Endpoint,
    FromServer,
    FromWorker,
    JobWork,
    StackDump,
    WorkerHello,
)
from beam_runner_runtime.channel.place import SERVER_NAME
from beam_runner_runtime.channel.server import OPTIONS, SERVICE
from beam_runner_runtime.channel.staged_files import decode_read_error
from beam_runner_runtime.channel.stand_by import EndStandBy, LaneRef
from beam_runner_runtime.channel.wire import encode_message, encode_request
from beam_runner_runtime.shutdown.limits import LIMITS

_LOGGER = logging.getLogger(__name__)
_Metadata: TypeAlias = tuple[tuple[str, str], ...]


class ChannelClient:
    """Client of the server for one job: sends requests, and opens the stream of messages between a
    worker process and the server.

    Each call has a timeout of one minute. A call raises :class:`HarnessError` if the server is
    unreachable or doesn't know the job.
    """

    def __init__(self, endpoint: Endpoint, job_id: str) -> None:
        self._job_id = job_id
        self._make_token_metadata = _make_token_metadata(endpoint)
        self._channel = open_channel(endpoint)
        self._outgoing: queue.SimpleQueue[FromWorker] = queue.SimpleQueue()
        self.more_stacks: Callable[[], tuple[ThreadStack, ...]] = tuple
        """Function that returns the stacks of other processes that work for this process, such as
        SDK harnesses. A call can take seconds.
        """

    def request_job_work(self) -> JobWork:
        """Requests the job's plan and settings from the server."""
        work: JobWork = _call_server(
            self._channel, self._make_token_metadata, "JobWork", self._job_id
        )
        return work

    def read_artifact(self, sha256: str) -> Iterator[bytes]:
        """Yields the chunks of a staged file (``beam_runner_worker.ports.ArtifactReader``).

        Raises:
            StagedFileError: The server can't read the file.
            ExternalSystemUnavailable: The disk or folder of all staged files is unavailable.
        """
        call = self._channel.unary_stream(f"/{SERVICE}/Artifact")
        try:
            yield from call(
                encode_request(self._job_id, sha256),
                metadata=self._make_token_metadata,
                timeout=LIMITS.call_seconds,
            )
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                raise KeyError(sha256) from error
            if error.code() is grpc.StatusCode.DATA_LOSS:
                raise decode_read_error(error.details()) from error
            raise HarnessError(
                f"Can't read artifact {sha256} from the job server: {error.details()}"
            ) from error

    def send(self, message: FromWorker) -> None:
        """Queues a message for the server, without waiting. Another thread encodes and sends the message."""
        self._outgoing.put(message)

    def open_message_stream(
        self,
        hello: WorkerHello,
        on_command: Callable[[FromServer], None],
        on_lost: Callable[[], None],
    ) -> None:
        """Opens the message stream to the server. A separate thread calls `on_command` for each
        command, and `on_lost` after the stream ends.
        """
        self.send(hello)
        attach = self._channel.stream_stream(f"/{SERVICE}/Attach")
        commands = attach(self._encode_outgoing_messages(), metadata=self._make_token_metadata)

        def receive_commands() -> None:
            try:
                for encoded in commands:
                    command = pickle.loads(encoded)
                    if isinstance(command, DumpStacks):
                        start_helper_thread(partial(self._send_stacks, command.request), "stacks")
                    else:
                        on_command(command)
            except grpc.RpcError:
                pass
            finally:
                # Also call `on_lost` if user code caused an error in this thread, because the
                # process can't receive commands anymore.
                on_lost()

        start_essential_thread(receive_commands, "channel")

    def _send_stacks(self, request: int) -> None:
        own = stacks.list_thread_stacks()
        try:
            more = self.more_stacks()
        except Exception:
            _LOGGER.warning("Can't request the stacks of SDK harnesses", exc_info=True)
            more = ()
        self.send(StackDump(request, (*own, *more)))

    def _encode_outgoing_messages(self) -> Iterator[bytes]:
        while True:
            yield encode_message(self._outgoing.get())


def wait_for_lane(endpoint: Endpoint, number: int) -> LaneRef | EndStandBy:
    """Waits until the server assigns a lane to this stand-by process (a process that is started
    before a job needs it), and returns the server's order.

    Raises:
        HarnessError: If the server is unreachable.
    """
    # Keep this gRPC channel open, so that the channel for the assigned job can reuse its TCP connection.
    channel = open_channel(endpoint)
    order: LaneRef | EndStandBy | None = None
    while order is None:
        order = _call_server(channel, _make_token_metadata(endpoint), "StandByOrder", number)
    return order


def check_server_reachable(endpoint: Endpoint, seconds: float) -> str:
    """Returns the reason why the server is unreachable from this process within `seconds`. Returns ""
    if it is reachable.
    """
    with open_channel(endpoint) as channel:
        call = channel.unary_unary(f"/{SERVICE}/Knock")
        try:
            call(b"", metadata=_make_token_metadata(endpoint), timeout=seconds)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                return f"no answer within {seconds:g} s"
            return str(error.details())
    return ""


def open_channel(endpoint: Endpoint) -> grpc.Channel:
    """Returns a channel to the server. gRPC connects on the first call."""
    if not endpoint.certificate:
        return grpc.insecure_channel(endpoint.address, options=OPTIONS)
    credentials = grpc.ssl_channel_credentials(root_certificates=endpoint.certificate.encode())
    options = (*OPTIONS, ("grpc.ssl_target_name_override", SERVER_NAME))
    return grpc.secure_channel(endpoint.address, credentials, options=options)


def _make_token_metadata(endpoint: Endpoint) -> _Metadata:
    return (("authorization", f"Bearer {endpoint.token}"),)


def _call_server(
    channel: grpc.Channel, metadata: _Metadata, method: str, request: str | int
) -> Any:
    call = channel.unary_unary(f"/{SERVICE}/{method}")
    try:
        answer = call(encode_request(request), metadata=metadata, timeout=LIMITS.call_seconds)
    except grpc.RpcError as error:
        raise HarnessError(
            f"the job server failed to answer {method}: {error.details()}"
        ) from error
    return pickle.loads(answer)
