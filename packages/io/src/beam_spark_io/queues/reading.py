"""`ReadFromQueue`, which acknowledges messages of a queue after the runner has committed them.

A bundle registers the acknowledgement as a finalization callback. The runner calls it after the commit of
the bundle, in the process that has received the messages. If that process is lost, the queue delivers the
messages again.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import apache_beam as beam
import attrs
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.pvalue import PBegin, PCollection
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_spark_io.endless_restrictions import EndlessRestrictions
from beam_spark_io.queues.queue import (
    MessageQueue,
    QueueConsumer,
    QueueMessage,
    QueueUnavailable,
)

_LOGGER = logging.getLogger(__name__)
_MOST = 1_000
_POLL = 0.5
_OUTAGE_PAUSE = 2.0
"""Seconds before another attempt to read an unavailable queue. Meanwhile, the bundle doesn't use a slot."""
_BUNDLE_SECONDS = 1.0
"""Seconds after which a bundle stops receiving messages, so that the received messages are soon
acknowledged.
"""


class ReadFromQueue(beam.PTransform):
    """Transform that emits each message of a queue as a pair of its ID and its data.

    Each message is emitted at least once, and acknowledged after the commit. The queue delivers a message
    again if a process is killed between the commit and the acknowledgement, or if the commit takes longer
    than the queue waits. `DeduplicatePerKey` of Beam removes messages with the same ID.

    The timestamp of an element is the time of its reception. A drain of the job ends the reading.

    Args:
        queue: the queue; Beam pickles it.
        readers: number of consumers that read at the same time.
        most: maximum number of messages in a bundle.
        poll_seconds: pause before the next look at an empty queue.
        max_lateness: seconds by which the watermark follows the clock, for event times that a later step
            assigns.

    Raises:
        ValueError: An argument is out of range.
    """

    def __init__(
        self,
        queue: MessageQueue,
        readers: int = 1,
        most: int = _MOST,
        poll_seconds: float = _POLL,
        max_lateness: float = 0.0,
    ) -> None:
        super().__init__()
        if readers < 1 or most < 1:
            raise ValueError(f"readers is {readers} and most is {most}; both must be at least 1")
        if poll_seconds < 0 or max_lateness < 0:
            raise ValueError(
                f"poll_seconds is {poll_seconds} and max_lateness is {max_lateness}; expected at "
                "least 0"
            )
        self._readers = readers
        self._read = ReadMessages(queue, most, poll_seconds, max_lateness)

    def expand(self, begin: PBegin) -> PCollection[tuple[str, Any]]:
        """Returns pairs of an ID and the data of a message."""
        messages: PCollection[tuple[str, Any]] = (
            begin
            | "Readers" >> beam.Create(range(self._readers))
            | "Read" >> beam.ParDo(self._read).with_output_types(tuple[str, Any])
        )
        return messages


class CallsOfReader(EndlessRestrictions):
    """Restriction provider that counts the calls of a reader, because a queue has no positions."""

    def initial_restriction(self, element: int) -> OffsetRange:
        """Returns a restriction for an unlimited number of calls."""
        return super().initial_restriction(0)


_WATERMARK: Any = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())


class ReadMessages(beam.DoFn):
    """DoFn that receives messages and acknowledges them after the commit.

    Args:
        most: maximum number of messages in a bundle.
        poll_seconds: pause before the next look at an empty queue.
        max_lateness: seconds by which the watermark follows the clock.
    """

    def __init__(
        self, queue: MessageQueue, most: int, poll_seconds: float, max_lateness: float
    ) -> None:
        self._queue = queue
        self._most = most
        self._poll = poll_seconds
        self._lateness = max_lateness

    def setup(self) -> None:
        """Initializes the DoFn without a consumer."""
        self._consumer: LockedConsumer | None = None

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: int,
        # Beam passes the restriction tracker and the watermark estimator by name, so other
        # parameters must come first.
        finalizer: Any = beam.DoFn.BundleFinalizerParam,
        tracker: Any = beam.DoFn.RestrictionParam(CallsOfReader()),  # noqa: B008
        estimator: Any = _WATERMARK,
    ) -> Iterator[TimestampedValue]:
        """Yields messages until the bundle is full, a second is over, or the queue is empty."""
        call = tracker.current_restriction().start
        end = time.monotonic() + _BUNDLE_SECONDS
        rest = self._most
        messages: Sequence[QueueMessage] = ()
        while rest > 0 and time.monotonic() < end:
            if not tracker.try_claim(call):
                return
            call += 1
            try:
                consumer, messages = self._receive_messages(rest)
            except QueueUnavailable as away:
                _LOGGER.warning("The read of a queue waits: %s", away)
                tracker.defer_remainder(Duration.of(_OUTAGE_PAUSE))
                return
            now = _advance_watermark(estimator, self._lateness)
            if not messages:
                break
            receipts = [attrs.evolve(message, data=None) for message in messages]
            finalizer.register(partial(consumer.acknowledge, receipts))
            rest -= len(messages)
            for message in messages:
                yield TimestampedValue((message.id, message.data), now)
        tracker.defer_remainder(Duration.of(0 if messages else self._poll))

    def teardown(self) -> None:
        """Closes the consumer. Messages without acknowledgement are delivered again."""
        if self._consumer is not None:
            self._consumer.close()

    def _receive_messages(self, most: int) -> tuple[LockedConsumer, Sequence[QueueMessage]]:
        if self._consumer is None or self._consumer.is_closed:
            self._consumer = LockedConsumer(self._queue.create_consumer())
        return self._consumer, self._consumer.receive(most)


class LockedConsumer:
    """Thread-safe consumer, because one thread runs bundles, and another thread acknowledges
    messages.

    Attributes:
        is_closed: whether the consumer was closed, by `close` or after an error.
    """

    def __init__(self, consumer: QueueConsumer) -> None:
        self._consumer = consumer
        self._lock = threading.Lock()
        self.is_closed = False

    def receive(self, most: int) -> Sequence[QueueMessage]:
        """Returns messages of the queue."""
        with self._lock, self._close_after_error():
            return self._consumer.receive(most)

    def acknowledge(self, messages: Sequence[QueueMessage]) -> None:
        """Acknowledges messages, unless the consumer is closed."""
        with self._lock:
            # Another connection can't acknowledge these messages, so the queue delivers them again.
            if not self.is_closed:
                with self._close_after_error():
                    self._consumer.acknowledge(messages)

    def close(self) -> None:
        """Closes the consumer."""
        with self._lock:
            self._close_consumer()

    @contextlib.contextmanager
    def _close_after_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            with contextlib.suppress(Exception):
                self._close_consumer()
            raise

    def _close_consumer(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._consumer.close()


def _advance_watermark(estimator: Any, lateness: float) -> Timestamp:
    """Advances the watermark. Returns a timestamp that isn't behind the watermark, even if the
    machine's clock is slow.
    """
    now = Timestamp.now()
    watermark = estimator.current_watermark()
    if watermark is not None:
        now = max(now, watermark + Duration.of(lateness))
    estimator.set_watermark(now - Duration.of(lateness))
    return now
