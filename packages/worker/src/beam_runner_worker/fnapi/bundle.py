"""One bundle on its way through an SDK harness: what it has sent, what is still in flight.

What is sent ahead of the SDK and what is received ahead of the host are both limited, so that
neither side fills the other's memory.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

import attrs
from beam_runner_model.chunks import Timer

from beam_runner_worker._protos import beam_fn_api_pb2
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.fnapi.bundle_state import BundleState

_MESSAGES_IN_FLIGHT = 4
_RECEIVED_BYTES = 32 << 20


@attrs.frozen
class Received:
    """Some data or timers of a bundle, as an SDK sends them.

    Attributes:
        transform_id: the data sink, or the stateful transform.
        family: the timer family; None for data.
        data: encoded elements or timers.
        is_last: whether no more come for the same place.
    """

    transform_id: str
    family: str | None
    data: bytes
    is_last: bool


class RunningBundle:
    """A bundle between its first request and its response.

    One thread runs the bundle: it sends, takes what was received, and waits in :meth:`wait`.
    The SDK's streams call the other methods.
    """

    def __init__(self, instruction_id: str, state: BundleState) -> None:
        self.instruction_id = instruction_id
        self.state = state
        self.changed = threading.Condition()
        self.response: beam_fn_api_pb2.InstructionResponse | None = None
        self.abandoned = False
        self._lost: str | None = None
        self._failure: Exception | None = None
        self.elements = 0
        """How many elements of the input have been sent, or are about to be."""
        self.first_data = b""
        """The first message of the input."""
        self.timers = 0
        """How many timers have been sent."""
        self.first_timer: Timer | None = None
        """The first of them."""
        self.processed = 0.0
        """How many elements the SDK has told to be done, when it was asked last."""
        self.stop: int | None = None
        """The number of the first element that the SDK has given away in a split."""
        self._in_flight = 0
        self._received: deque[Received] = deque()
        self._received_bytes = 0

    def wait(
        self, seen: beam_fn_api_pb2.InstructionResponse | None, *, for_room: bool
    ) -> list[Received]:
        """Waits until there is something to do, and takes what the SDK has sent.

        Args:
            seen: the response as the caller knows it; another one is something to do.
            for_room: room for another message, or no more need of one, is something to do, too.

        Raises:
            HarnessError: the SDK is lost.
            Exception: what the bundle failed with by :meth:`fail`.
        """
        with self.changed:
            self.changed.wait_for(
                lambda: (
                    self._received
                    or self._failure is not None
                    or self._lost is not None
                    or self.response is not seen
                    or (for_room and (self.has_room() or self.input_over()))
                )
            )
            return self._take()

    def poll(self) -> list[Received]:
        """Takes what the SDK has sent so far, without waiting.

        Raises:
            HarnessError: the SDK is lost.
            Exception: what the bundle failed with by :meth:`fail`.
        """
        with self.changed:
            return self._take()

    def check(self) -> None:
        """Raises what the bundle failed with by :meth:`fail`, if it did."""
        if self._failure is not None:
            raise self._failure

    def _take(self) -> list[Received]:
        self.check()
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

    def input_over(self) -> bool:
        """Whether the SDK has been sent all elements that it has not given away."""
        return self.stop is not None and self.elements >= self.stop

    def stop_at(self, number: int) -> None:
        """The SDK has given away its input from that element on."""
        with self.changed:
            self.stop = number if self.stop is None else min(number, self.stop)
            self.changed.notify_all()

    def sending(self, elements: int) -> None:
        """A message with so many elements was put on the data stream's queue."""
        with self.changed:
            self._in_flight += 1
            self.elements += elements

    def firing(self, timers: Sequence[Timer]) -> None:
        """So many timers are about to be sent."""
        self.first_timer = self.first_timer or next(iter(timers), None)
        self.timers += len(timers)

    def sent(self) -> None:
        """A message has left for the SDK."""
        with self.changed:
            self._in_flight -= 1
            self.changed.notify_all()

    def receive(self, received: Received) -> None:
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
                self._received.append(received)
                self._received_bytes += len(received.data)
                self.changed.notify_all()

    def respond(self, response: beam_fn_api_pb2.InstructionResponse) -> None:
        """The SDK has finished the bundle, well or not."""
        with self.changed:
            self.response = response
            self.changed.notify_all()

    def wait_response(self, limit: float) -> None:
        """Waits until the SDK has finished the bundle, or is gone, for at most ``limit`` seconds."""
        with self.changed:
            self.changed.wait_for(
                lambda: self.response is not None or self._lost is not None, limit
            )

    def fail(self, failure: Exception) -> None:
        """The host can't do its part: the bundle is to end with that, whatever the SDK says."""
        with self.changed:
            self._failure = self._failure or failure
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
