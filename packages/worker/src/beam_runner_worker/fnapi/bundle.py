"""One bundle in an SDK harness: the data that it has sent, and the data in flight.

The data that is sent ahead of the SDK, and the data that is received ahead of the host, are both
limited. So neither side fills the other's memory.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

import attrs
from beam_runner_model.chunks import StageTimer

from beam_runner_worker._protos import beam_fn_api_pb2
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.fnapi.bundle_state import BundleStateStores

_MESSAGES_IN_FLIGHT = 4
_RECEIVED_BYTES = 32 << 20


@attrs.frozen
class ReceivedData:
    """Data or timers of a bundle, received from an SDK.

    Attributes:
        transform_id: the data sink, or the stateful transform.
        family: the timer family; None for data.
        data: encoded elements or timers.
        is_last: whether the stream of this sink or family ends here.
    """

    transform_id: str
    family: str | None
    data: bytes
    is_last: bool


class SdkBundle:
    """A bundle between its first request and its response.

    One thread runs the bundle: it sends, takes received data, and waits in :meth:`wait_for_work`. The
    threads of the SDK's streams call the other methods.
    """

    def __init__(self, instruction_id: str, state: BundleStateStores) -> None:
        self.instruction_id = instruction_id
        self.state = state
        self.changed = threading.Condition()
        self.response: beam_fn_api_pb2.InstructionResponse | None = None
        self.abandoned = False
        self._lost: str | None = None
        self._failure: Exception | None = None
        self.elements = 0
        """The number of input elements that have been sent, or are about to be sent."""
        self.first_data = b""
        """The first message of the input."""
        self.timers = 0
        """The number of sent timers."""
        self.first_timer: StageTimer | None = None
        """The first sent timer."""
        self.processed = 0.0
        """The number of elements that the SDK had processed at the last progress report."""
        self.stop: int | None = None
        """The number of the first element that the SDK has given away in a split."""
        self._in_flight = 0
        self._received: deque[ReceivedData] = deque()
        self._received_bytes = 0

    def wait_for_work(
        self, seen: beam_fn_api_pb2.InstructionResponse | None, *, for_room: bool
    ) -> list[ReceivedData]:
        """Waits until the thread has work, and returns the data that the SDK has sent.

        Args:
            seen: the response that the caller knows; a new response is work.
            for_room: whether room for another message, or the end of the input, is work, too.

        Raises:
            HarnessError: the SDK is lost.
            Exception: the error passed to :meth:`fail`.
        """
        with self.changed:
            self.changed.wait_for(
                lambda: (
                    self._received
                    or self._failure is not None
                    or self._lost is not None
                    or self.response is not seen
                    or (for_room and (self.has_room() or self.is_input_complete()))
                )
            )
            return self._take_received()

    def poll_received(self) -> list[ReceivedData]:
        """Returns the data that the SDK has sent so far, without waiting.

        Raises:
            HarnessError: the SDK is lost.
            Exception: the error passed to :meth:`fail`.
        """
        with self.changed:
            return self._take_received()

    def raise_failure(self) -> None:
        """Raises the error passed to :meth:`fail`, if there is one."""
        if self._failure is not None:
            raise self._failure

    def _take_received(self) -> list[ReceivedData]:
        self.raise_failure()
        if self._lost is not None:
            raise HarnessError(self._lost)
        taken = list(self._received)
        self._received.clear()
        self._received_bytes = 0
        self.changed.notify_all()
        return taken

    def has_room(self) -> bool:
        """Whether another message may be sent; only a few may be in flight."""
        return self._in_flight < _MESSAGES_IN_FLIGHT

    def is_input_complete(self) -> bool:
        """Whether all elements that the SDK has not given away have been sent."""
        return self.stop is not None and self.elements >= self.stop

    def record_stop(self, number: int) -> None:
        """Records that the SDK has given away its input from this element on."""
        with self.changed:
            self.stop = number if self.stop is None else min(number, self.stop)
            self.changed.notify_all()

    def record_queued_message(self, elements: int) -> None:
        """Records that a message with ``count`` elements is in the queue of the data stream."""
        with self.changed:
            self._in_flight += 1
            self.elements += elements

    def record_timers(self, timers: Sequence[StageTimer]) -> None:
        """Records that timers are about to be sent."""
        self.first_timer = self.first_timer or next(iter(timers), None)
        self.timers += len(timers)

    def record_sent_message(self) -> None:
        """Records that a message has left for the SDK."""
        with self.changed:
            self._in_flight -= 1
            self.changed.notify_all()

    def store_received(self, received: ReceivedData) -> None:
        """Stores data from the SDK; blocks the stream while the bundle's thread is far behind."""
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

    def record_response(self, response: beam_fn_api_pb2.InstructionResponse) -> None:
        """Records the SDK's response, successful or not."""
        with self.changed:
            self.response = response
            self.changed.notify_all()

    def wait_response(self, limit: float) -> None:
        """Waits until the SDK has responded or is gone, for at most ``limit`` seconds."""
        with self.changed:
            self.changed.wait_for(
                lambda: self.response is not None or self._lost is not None, limit
            )

    def fail(self, failure: Exception) -> None:
        """Makes the bundle fail with an error of the host, whatever the SDK responds."""
        with self.changed:
            self._failure = self._failure or failure
            self.changed.notify_all()

    def mark_lost(self, reason: str) -> None:
        """Records that the SDK is gone."""
        with self.changed:
            self._lost = self._lost or reason
            self.changed.notify_all()

    def abandon(self) -> None:
        """Drops all later data, because the results are no longer needed."""
        with self.changed:
            self.abandoned = True
            self._received.clear()
            self.changed.notify_all()
