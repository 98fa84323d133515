"""A worker process's end of the channel."""

from __future__ import annotations

import pickle
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
from beam_runner_worker.errors import HarnessError

from beam_spark_executor.channel.messages import (
    Endpoint,
    FromServer,
    FromWorker,
    Hello,
    JobWork,
)
from beam_spark_executor.channel.server import OPTIONS, SERVICE

_CALL_SECONDS = 60.0


class ChannelClient:
    """Calls to the server on behalf of one job, and the stream that keeps the two attached.

    Every call is limited to a minute, and raises :class:`HarnessError` if the server can't be
    reached or does not know the job.
    """

    def __init__(self, endpoint: Endpoint, job_id: str) -> None:
        self._job_id = job_id
        self._metadata = (("authorization", f"Bearer {endpoint.token}"),)
        self._channel = grpc.insecure_channel(endpoint.address, options=OPTIONS)
        self._outgoing: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def job_work(self) -> JobWork:
        """All that this process must know of the job."""
        work: JobWork = self._call("JobWork")
        return work

    def read(self, sha256: str) -> Iterator[bytes]:
        """A staged file in pieces (``beam_runner_worker.ports.ArtifactReader``)."""
        call = self._channel.unary_stream(f"/{SERVICE}/Artifact")
        try:
            yield from call(
                pickle.dumps((self._job_id, sha256)),
                metadata=self._metadata,
                timeout=_CALL_SECONDS,
            )
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                raise KeyError(sha256) from error
            raise HarnessError(f"artifact {sha256} could not be read: {error.details()}") from error

    def send(self, message: FromWorker) -> None:
        """Sends a message on the stream; never blocks."""
        self._outgoing.put(pickle.dumps(message))

    def attach(
        self, hello: Hello, on_command: Callable[[FromServer], None], on_lost: Callable[[], None]
    ) -> None:
        """Opens the stream; commands, and the loss of the server, arrive on a thread of its own."""
        self.send(hello)
        attach = self._channel.stream_stream(f"/{SERVICE}/Attach")
        commands = attach(self._messages(), metadata=self._metadata)

        def listen() -> None:
            try:
                for command in commands:
                    on_command(pickle.loads(command))
            except grpc.RpcError:
                on_lost()

        threading.Thread(target=listen, name="channel", daemon=True).start()

    def _messages(self) -> Iterator[bytes]:
        while True:
            yield self._outgoing.get()

    def _call(self, method: str, *arguments: Any) -> Any:
        call = self._channel.unary_unary(f"/{SERVICE}/{method}")
        try:
            answer = call(
                pickle.dumps((self._job_id, *arguments)),
                metadata=self._metadata,
                timeout=_CALL_SECONDS,
            )
        except grpc.RpcError as error:
            raise HarnessError(
                f"the job server did not answer {method}: {error.details()}"
            ) from error
        return pickle.loads(answer)
