"""Tests of `ReadFromQueue` with a queue in memory: a message is acknowledged after the commit, never before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.utils.timestamp import Duration, Timestamp

from beam_spark_io import QueueMessage, QueueUnavailable, ReadFromQueue
from beam_spark_io.endless_restrictions import CheckpointTracker
from beam_spark_io.queues.reading import CallsOfReader, ReadMessages


class MemoryQueue:
    """Queue that delivers the messages of a closed consumer again."""

    def __init__(self, *ids: str) -> None:
        self.waiting = list(ids)
        self.delivered: dict[str, MemoryConsumer] = {}
        self.acknowledged: list[str] = []
        self.consumers = 0
        self.failures = 0
        """Number of the next calls of consumers that fail."""
        self.error: Exception = ConnectionError("the queue doesn't answer")
        self.refuses = False
        """Whether no consumer can be created."""

    def create_consumer(self) -> MemoryConsumer:
        if self.refuses:
            raise QueueUnavailable("the queue doesn't answer")
        self.consumers += 1
        return MemoryConsumer(self, self.consumers)

    def fail(self) -> None:
        if self.failures:
            self.failures -= 1
            raise self.error


class MemoryConsumer:
    """Consumer whose receipts only it can use."""

    def __init__(self, queue: MemoryQueue, number: int) -> None:
        self._queue = queue
        self._number = number

    def receive(self, most: int) -> Sequence[QueueMessage]:
        self._queue.fail()
        ids = self._queue.waiting[:most]
        del self._queue.waiting[:most]
        self._queue.delivered.update(dict.fromkeys(ids, self))
        return [QueueMessage(one, f"data of {one}", self._number) for one in ids]

    def acknowledge(self, messages: Sequence[QueueMessage]) -> None:
        self._queue.fail()
        for message in messages:
            assert message.receipt == self._number
            assert message.data is None
            assert self._queue.delivered.pop(message.id) is self
            self._queue.acknowledged.append(message.id)

    def close(self) -> None:
        lost = [one for one, consumer in self._queue.delivered.items() if consumer is self]
        self._queue.waiting += lost
        for one in lost:
            del self._queue.delivered[one]


class Watermark:
    """Manual watermark of a restriction."""

    def __init__(self, value: Timestamp | None = None) -> None:
        self.value = value

    def current_watermark(self) -> Timestamp | None:
        return self.value

    def set_watermark(self, value: Timestamp) -> None:
        self.value = value


class Bundle:
    """One bundle of a reader, as a runner makes it.

    Args:
        reader: DoFn.
        start: number of the first call.
        watermark: watermark of the restriction.
    """

    def __init__(self, reader: ReadMessages, start: int = 0, watermark: Any = None) -> None:
        self.tracker = CheckpointTracker(OffsetRange(start, 2**62))
        self.pause: Duration | None = None
        self.callbacks: list[Callable[[], None]] = []
        self.watermark = watermark or Watermark()
        self.outputs = reader.process(0, self, self, self.watermark)

    def current_restriction(self) -> OffsetRange:
        return self.tracker.current_restriction()

    def try_claim(self, position: int) -> bool:
        return self.tracker.try_claim(position)

    def defer_remainder(self, pause: Duration) -> None:
        self.pause = pause

    def register(self, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)

    def run(self) -> list[str]:
        return [one.value[0] for one in self.outputs]

    def commit(self) -> None:
        for callback in self.callbacks:
            callback()


def start_reader(queue: MemoryQueue, most: int = 2) -> ReadMessages:
    reader = ReadMessages(queue, most, poll_seconds=7.0, max_lateness=30.0)
    reader.setup()
    return reader


def test_queue_message_is_acknowledged_after_commit() -> None:
    queue = MemoryQueue("a", "b", "c")
    reader = start_reader(queue)
    first = Bundle(reader)
    assert first.run() == ["a", "b"]
    assert first.pause == 0
    second = Bundle(reader, 1)
    assert second.run() == ["c"]
    assert second.pause == 7
    assert queue.acknowledged == []
    first.commit()
    assert queue.acknowledged == ["a", "b"]
    second.commit()
    assert queue.acknowledged == ["a", "b", "c"]
    assert queue.consumers == 1


def test_queue_message_of_lost_process_is_delivered_again() -> None:
    queue = MemoryQueue("a", "b")
    lost = start_reader(queue)
    bundle = Bundle(lost)
    assert bundle.run() == ["a", "b"]
    lost.teardown()
    bundle.commit()
    assert queue.acknowledged == []
    again = Bundle(start_reader(queue))
    assert again.run() == ["a", "b"]
    again.commit()
    assert queue.acknowledged == ["a", "b"]


def test_queue_consumer_is_replaced_after_error() -> None:
    queue = MemoryQueue("a", "b", "c")
    reader = start_reader(queue)
    uncommitted = Bundle(reader)
    assert uncommitted.run() == ["a", "b"]
    queue.failures = 1
    with pytest.raises(ConnectionError):
        Bundle(reader, 1).run()
    uncommitted.commit()  # another consumer can't use the receipts
    assert queue.acknowledged == []
    following = Bundle(reader, 1)
    assert following.run() == ["c", "a"]
    following.commit()
    assert queue.acknowledged == ["c", "a"]
    assert queue.consumers == 2


def test_unavailable_queue_defers_the_read_and_keeps_the_received_messages(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = MemoryQueue("a")
    queue.error = QueueUnavailable("the queue doesn't answer")
    reader = start_reader(queue, most=10)
    bundle = Bundle(reader)
    assert next(bundle.outputs).value == ("a", "data of a")
    queue.failures, queue.refuses = 1, True
    assert bundle.run() == []
    assert bundle.pause == 2
    following = Bundle(reader, 2)
    assert following.run() == []
    assert following.pause == 2
    assert [one.getMessage() for one in caplog.records] == [
        "The read of a queue waits: the queue doesn't answer"
    ] * 2
    queue.refuses = False
    assert Bundle(reader, 3).run() == ["a"]


def test_queue_messages_are_redelivered_after_failed_acknowledgement() -> None:
    queue = MemoryQueue("a")
    reader = start_reader(queue)
    bundle = Bundle(reader)
    assert bundle.run() == ["a"]
    queue.failures = 1
    with pytest.raises(ConnectionError):
        bundle.commit()
    assert Bundle(reader, 1).run() == ["a"]


def test_queue_read_checkpoint_leaves_messages_in_queue() -> None:
    queue = MemoryQueue("a", "b", "c")
    bundle = Bundle(start_reader(queue, most=10))
    assert next(bundle.outputs).value == ("a", "data of a")
    assert bundle.tracker.try_split(0.5) is None
    primary, residual = bundle.tracker.try_split(0)
    assert (primary.stop, residual.start) == (1, 1)
    queue.waiting.append("d")
    assert bundle.run() == ["b", "c"]
    assert bundle.pause is None
    assert queue.waiting == ["d"]
    bundle.tracker.check_done()


def test_drain_ends_queue_read() -> None:
    assert CallsOfReader().truncate(0, OffsetRange(3, 2**62)) is None


def test_timestamps_follow_the_watermark_if_the_clock_is_slow() -> None:
    ahead = Timestamp.now() + Duration.of(3600)
    bundle = Bundle(start_reader(MemoryQueue("a")), 0, Watermark(ahead))
    (message,) = bundle.outputs
    assert message.timestamp == ahead + Duration.of(30)
    assert bundle.watermark.value == ahead
    fresh = Bundle(start_reader(MemoryQueue("a"), most=1))
    (message,) = fresh.outputs
    assert fresh.watermark.value == message.timestamp - Duration.of(30)


@pytest.mark.parametrize("name", ["readers", "most", "poll_seconds", "max_lateness"])
def test_transform_refuses_wrong_arguments(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is -1"):
        ReadFromQueue(MemoryQueue(), **{name: -1})


def test_queue_read_is_unbounded() -> None:
    pipeline = beam.Pipeline()
    assert not (pipeline | ReadFromQueue(MemoryQueue())).is_bounded
