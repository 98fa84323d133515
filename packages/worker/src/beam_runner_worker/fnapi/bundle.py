"""One bundle on its way through an SDK harness: what it has sent, what is still in flight.

What is sent ahead of the SDK and what is received ahead of the host are both limited, so that
neither side fills the other's memory.
"""

from __future__ import annotations

import threading
from collections import deque

from beam_runner_worker._protos import beam_fn_api_pb2
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.fnapi.side_inputs import SideInputPages

_MESSAGES_IN_FLIGHT = 4
_RECEIVED_BYTES = 32 << 20


class RunningBundle:
    """A bundle between its first request and its response.

    One thread runs the bundle: it sends, takes what was received, and waits in :meth:`wait`.
    The SDK's streams call the other methods.
    """

    def __init__(self, instruction_id: str, side_inputs: SideInputPages) -> None:
        self.instruction_id = instruction_id
        self.side_inputs = side_inputs
        self.changed = threading.Condition()
        self.response: beam_fn_api_pb2.InstructionResponse | None = None
        self.abandoned = False
        self._lost: str | None = None
        self._in_flight = 0
        self._received: deque[beam_fn_api_pb2.Elements.Data] = deque()
        self._received_bytes = 0

    def wait(
        self, seen: beam_fn_api_pb2.InstructionResponse | None, *, for_room: bool
    ) -> list[beam_fn_api_pb2.Elements.Data]:
        """Waits until there is something to do, and takes what the SDK has sent.

        Args:
            seen: the response as the caller knows it; another one is something to do.
            for_room: room for another message is something to do, too.

        Raises:
            HarnessError: the SDK is lost.
        """
        with self.changed:
            self.changed.wait_for(
                lambda: (
                    self._received
                    or self._lost is not None
                    or self.response is not seen
                    or (for_room and self._in_flight < _MESSAGES_IN_FLIGHT)
                )
            )
            return self._take()

    def poll(self) -> list[beam_fn_api_pb2.Elements.Data]:
        """Takes what the SDK has sent so far, without waiting.

        Raises:
            HarnessError: the SDK is lost.
        """
        with self.changed:
            return self._take()

    def _take(self) -> list[beam_fn_api_pb2.Elements.Data]:
        if self._lost is not None:
            raise HarnessError(self._lost)
        taken = list(self._received)
        self._received.clear()
        self._received_bytes = 0
        self.changed.notify_all()
        return taken

    def has_room(self) -> bool:
        """Whether another message may be sent: only a few are on their way at once."""
        return self._in_flight < _MESSAGES_IN_FLIGHT

    def sending(self) -> None:
        """A message was put on the data stream's queue."""
        with self.changed:
            self._in_flight += 1

    def sent(self) -> None:
        """A message has left for the SDK."""
        with self.changed:
            self._in_flight -= 1
            self.changed.notify_all()

    def receive(self, data: beam_fn_api_pb2.Elements.Data) -> None:
        """Keeps data from the SDK; blocks the stream while the bundle's thread is far behind."""
        with self.changed:
            self.changed.wait_for(
                lambda: (
                    self._received_bytes < _RECEIVED_BYTES
                    or self._lost is not None
                    or self.abandoned
                )
            )
            if self._lost is None and not self.abandoned:
                self._received.append(data)
                self._received_bytes += len(data.data)
                self.changed.notify_all()

    def respond(self, response: beam_fn_api_pb2.InstructionResponse) -> None:
        """The SDK has finished the bundle, well or not."""
        with self.changed:
            self.response = response
            self.changed.notify_all()

    def lose(self, reason: str) -> None:
        """The SDK is gone."""
        with self.changed:
            self._lost = self._lost or reason
            self.changed.notify_all()

    def abandon(self) -> None:
        """Nobody wants the results any more; what still comes is dropped."""
        with self.changed:
            self.abandoned = True
            self._received.clear()
            self.changed.notify_all()
