"""State of one bundle in an SDK harness: the bundle's response, the received data, and the number
of messages in flight.

The amount of data that the SDK has not read yet, and the amount of data that the runner has not
read yet, are both limited. So neither side can fill the memory of the other.
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
    """Encoded elements or timers of a bundle that the SDK has sent.

    Attributes:
        transform_id: the data sink, or the stateful transform.
        family: the timer family; None for data.
        data: encoded elements or timers.
        is_last: whether this is the last data of the sink or timer family.
    """

    transform_id: str
    family: str | None
    data: bytes
    is_last: bool


class SdkBundle:
    """Bundle that an SDK harness processes, from the request to the response.

    One thread runs the bundle. This thread sends input, takes received data, and waits in
    :meth:`wait_for_work`. The threads of the SDK's streams call the other methods.
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
        """Number of input elements that were sent or are in the send queue."""
        self.first_data = b""
        """Encoded elements of the first input message."""
        self.timers = 0
        """Number of sent timers."""
        self.first_timer: StageTimer | None = None
        """First timer that was sent."""
        self.processed = 0.0
        """Number of elements that the SDK had processed at the last progress report."""
        self.stop: int | None = None
        """Index of the first element that a split removed from the bundle; None without a split."""
        self._in_flight = 0
        self._received: deque[ReceivedData] = deque()
        self._received_bytes = 0

    def wait_for_work(
        self, seen: beam_fn_api_pb2.InstructionResponse | None, *, for_room: bool
    ) -> list[ReceivedData]:
        """Waits until the bundle's thread has work, and returns the data that the SDK has sent.

        Args:
            seen: the response that the caller already knows. Another response is work.
            for_room: whether free space for another message, or the end of the input, also counts
                as work.

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
                    or (for_room and (self.has_capacity() or self.is_input_complete()))
                )
            )
            return self._take_received_data()

    def poll_received_data(self) -> list[ReceivedData]:
        """Returns the data that the SDK has sent so far, without waiting.

        Raises:
            HarnessError: the SDK is lost.
            Exception: the error passed to :meth:`fail`.
        """
        with self.changed:
            return self._take_received_data()

    def raise_failure(self) -> None:
        """Raises the error that was passed to :meth:`fail`, if any."""
        if self._failure is not None:
            raise self._failure

    def _take_received_data(self) -> list[ReceivedData]:
        self.raise_failure()
        if self._lost is not None:
            raise HarnessError(self._lost)
        taken = list(self._received)
        self._received.clear()
        self._received_bytes = 0
        self.changed.notify_all()
        return taken

    def has_capacity(self) -> bool:
        """Returns True if another message may be sent: fewer than 4 messages are in flight."""
        return self._in_flight < _MESSAGES_IN_FLIGHT

    def is_input_complete(self) -> bool:
        """Returns True if a split shortened the bundle, and the runner has sent all remaining
        elements to the SDK.
        """
        return self.stop is not None and self.elements >= self.stop

    def record_split_position(self, number: int) -> None:
        """Records that a split removed all input from this element on."""
        with self.changed:
            self.stop = number if self.stop is None else min(number, self.stop)
            self.changed.notify_all()

    def record_queued_message(self, elements: int) -> None:
        """Records that a message with this number of elements is in the send queue of the data stream."""
        with self.changed:
            self._in_flight += 1
            self.elements += elements

    def record_timers(self, timers: Sequence[StageTimer]) -> None:
        """Records timers that are about to be sent."""
        self.first_timer = self.first_timer or next(iter(timers), None)
        self.timers += len(timers)

    def record_sent_message(self) -> None:
        """Records that a message was sent to the SDK."""
        with self.changed:
            self._in_flight -= 1
            self.changed.notify_all()

    def store_received_data(self, received: ReceivedData) -> None:
        """Stores data from the SDK. Blocks the stream while more than 32 MiB wait for the bundle's thread."""
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

    def wait_for_response(self, limit: float) -> None:
        """Waits at most ``limit`` seconds until the SDK has responded or is lost."""
        with self.changed:
            self.changed.wait_for(
                lambda: self.response is not None or self._lost is not None, limit
            )

    def fail_bundle(self, failure: Exception) -> None:
        """Makes the bundle fail with an error of the runner, regardless of the SDK's response."""
        with self.changed:
            self._failure = self._failure or failure
            self.changed.notify_all()

    def mark_lost(self, reason: str) -> None:
        """Records that the connection to the SDK is lost, so that all waits fail."""
        with self.changed:
            self._lost = self._lost or reason
            self.changed.notify_all()

    def discard_data(self) -> None:
        """Drops all stored and later data of the bundle, because the runner no longer needs the
        bundle's results.
        """
        with self.changed:
            self.abandoned = True
            self._received.clear()
            self.changed.notify_all()
