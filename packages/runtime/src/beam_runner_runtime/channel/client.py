"""A worker process's end of the channel."""

from __future__ import annotations

import logging
import pickle
import queue
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

import grpc
from beam_runner_model.observation import ThreadStack
from beam_runner_model.threads import start_essential, start_helper
from beam_runner_worker.errors import HarnessError

from beam_runner_runtime.channel import stacks
from beam_runner_runtime.channel.messages import (
    DumpStacks,
    Endpoint,
    FromServer,
    FromWorker,
    Hello,
    JobWork,
    Stacks,
)
from beam_runner_runtime.channel.place import SERVER_NAME
from beam_runner_runtime.channel.server import OPTIONS, SERVICE
from beam_runner_runtime.channel.stand_by import LaneRef, StandDown
from beam_runner_runtime.channel.wire import encode_message, encode_request
from beam_runner_runtime.shutdown.limits import LIMITS

_LOGGER = logging.getLogger(__name__)
_Metadata: TypeAlias = tuple[tuple[str, str], ...]


class ChannelClient:
    """Calls to the server on behalf of one job, and the stream that keeps the two attached.

    Every call is limited to a minute, and raises :class:`HarnessError` if the server can't be
    reached or does not know the job.
    """

    def __init__(self, endpoint: Endpoint, job_id: str) -> None:
        self._job_id = job_id
        self._metadata = _metadata(endpoint)
        self._channel = open_channel(endpoint)
        self._outgoing: queue.SimpleQueue[FromWorker] = queue.SimpleQueue()
        self.more_stacks: Callable[[], tuple[ThreadStack, ...]] = tuple
        """What else does this process's work, and how far that is; may take seconds."""

    def job_work(self) -> JobWork:
        """All that this process must know of the job."""
        work: JobWork = _call(self._channel, self._metadata, "JobWork", self._job_id)
        return work

    def read(self, sha256: str) -> Iterator[bytes]:
        """A staged file in pieces (``beam_runner_worker.ports.ArtifactReader``)."""
        call = self._channel.unary_stream(f"/{SERVICE}/Artifact")
        try:
            yield from call(
                encode_request(self._job_id, sha256),
                metadata=self._metadata,
                timeout=LIMITS.call_seconds,
            )
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                raise KeyError(sha256) from error
            raise HarnessError(f"artifact {sha256} could not be read: {error.details()}") from error

    def send(self, message: FromWorker) -> None:
        """Sends a message on the stream; never blocks, nor costs the caller its encoding."""
        self._outgoing.put(message)

    def attach(
        self, hello: Hello, on_command: Callable[[FromServer], None], on_lost: Callable[[], None]
    ) -> None:
        """Opens the stream; commands, and the loss of the server, arrive on a thread of its own."""
        self.send(hello)
        attach = self._channel.stream_stream(f"/{SERVICE}/Attach")
        commands = attach(self._messages(), metadata=self._metadata)

        def listen() -> None:
            try:
                for encoded in commands:
                    command = pickle.loads(encoded)
                    if isinstance(command, DumpStacks):
                        start_helper(partial(self._tell_stacks, command.request), "stacks")
                    else:
                        on_command(command)
            except grpc.RpcError:
                pass
            finally:
                # Also where user code has broken what this thread needs: nobody would obey any more.
                on_lost()

        start_essential(listen, "channel")

    def _tell_stacks(self, request: int) -> None:
        own = stacks.threads()
        try:
            more = self.more_stacks()
        except Exception:
            _LOGGER.warning("SDK harnesses were not asked for their stacks", exc_info=True)
            more = ()
        self.send(Stacks(request, (*own, *more)))

    def _messages(self) -> Iterator[bytes]:
        while True:
            yield encode_message(self._outgoing.get())


def stand_by(endpoint: Endpoint, number: int) -> LaneRef | StandDown:
    """Asks what a task that stands by is to do, until that is decided.

    Raises:
        HarnessError: the server can't be reached.
    """
    # It stays open: the job's own channel will find it connected.
    channel = open_channel(endpoint)
    order: LaneRef | StandDown | None = None
    while order is None:
        order = _call(channel, _metadata(endpoint), "StandByOrder", number)
    return order


def knock(endpoint: Endpoint, seconds: float) -> str:
    """Why the server is not to be reached from here, within so many seconds; empty if it is."""
    with open_channel(endpoint) as channel:
        call = channel.unary_unary(f"/{SERVICE}/Knock")
        try:
            call(b"", metadata=_metadata(endpoint), timeout=seconds)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                return f"no answer within {seconds:g} s"
            return str(error.details())
    return ""


def open_channel(endpoint: Endpoint) -> grpc.Channel:
    """A channel to the server, which is not connected yet."""
    if not endpoint.certificate:
        return grpc.insecure_channel(endpoint.address, options=OPTIONS)
    credentials = grpc.ssl_channel_credentials(root_certificates=endpoint.certificate.encode())
    options = (*OPTIONS, ("grpc.ssl_target_name_override", SERVER_NAME))
    return grpc.secure_channel(endpoint.address, credentials, options=options)


def _metadata(endpoint: Endpoint) -> _Metadata:
    return (("authorization", f"Bearer {endpoint.token}"),)


def _call(channel: grpc.Channel, metadata: _Metadata, method: str, request: str | int) -> Any:
    call = channel.unary_unary(f"/{SERVICE}/{method}")
    try:
        answer = call(encode_request(request), metadata=metadata, timeout=LIMITS.call_seconds)
    except grpc.RpcError as error:
        raise HarnessError(f"the job server did not answer {method}: {error.details()}") from error
    return pickle.loads(answer)
