"""Broker in memory, with what a reader can meet: deleted records, markers, open transactions, outages."""

from __future__ import annotations

from typing import Any

import attrs

from beam_spark_io.kafka.errors import BrokersUnavailable
from beam_spark_io.kafka.messages import CREATE_TIME, KafkaMessage
from beam_spark_io.kafka.ports import FetchResult, OffsetBounds


@attrs.define
class FakePartition:
    """Partition.

    Attributes:
        records: the records by offset.
        low: the first offset that isn't deleted.
        end: the offset after the last readable record or marker.
        hidden: the number of records of open transactions.
    """

    records: dict[int, KafkaMessage] = attrs.field(factory=dict)
    low: int = 0
    end: int = 0
    hidden: int = 0


class FakeBroker:
    """Broker.

    Attributes:
        topics: the partitions of each topic.
        committed: the offsets of the consumer group.
        is_away: whether requests fail.
        batch: the number of records of one fetch.
        opened: the number of connections that were opened.
        closed: the number of connections that were closed.
    """

    def __init__(self, **topics: int) -> None:
        self.topics = {name: [FakePartition() for _ in range(n)] for name, n in topics.items()}
        self.committed: dict[tuple[str, int], int] = {}
        self.is_away = False
        self.batch = 3
        self.opened = self.closed = 0

    def append(self, topic: str, *values: Any, partition: int = 0, time: int = 0) -> None:
        """Appends records with the number of milliseconds as their create time."""
        one = self.topics[topic][partition]
        for value in values:
            one.records[one.end] = KafkaMessage(
                topic, partition, one.end, None, str(value).encode(), [], time, CREATE_TIME
            )
            one.end += 1

    def append_marker(self, topic: str, partition: int = 0) -> None:
        """Appends the end of a transaction, which no reader gets."""
        self.topics[topic][partition].end += 1

    def delete_before(self, topic: str, offset: int, partition: int = 0) -> None:
        """Deletes the records before an offset."""
        one = self.topics[topic][partition]
        one.low = offset
        one.records = {at: record for at, record in one.records.items() if at >= offset}

    def connect(self) -> FakeConnection:
        """Opens a connection."""
        self.opened += 1
        return FakeConnection(self)


class FakeConnection:
    """Connection to the broker."""

    addresses = "fake:9092"

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker

    def count_partitions(self, topic: str) -> int | None:
        self._check()
        found = self._broker.topics.get(topic)
        return None if found is None else len(found)

    def find_bounds(self, topic: str, partition: int) -> OffsetBounds:
        one = self._get(topic, partition)
        return OffsetBounds(one.low, one.end)

    def has_hidden_records(self, topic: str, partition: int, end: int) -> bool:
        one = self._get(topic, partition)
        return one.end + one.hidden > end

    def find_offset_at(self, topic: str, partition: int, time: int) -> int | None:
        records = self._get(topic, partition).records.values()
        return min((r.offset for r in records if (r.timestamp or 0) >= time), default=None)

    def find_committed_offset(self, topic: str, partition: int) -> int | None:
        self._check()
        return self._broker.committed.get((topic, partition))

    def fetch(self, topic: str, partition: int, offset: int, seconds: float) -> FetchResult:
        if self._broker.is_away:
            return FetchResult()
        one = self._get(topic, partition)
        found = [one.records[at] for at in sorted(one.records) if at >= offset]
        batch = found[: self._broker.batch]
        return FetchResult(batch, one.end if len(batch) == len(found) else None)

    def commit(self, topic: str, partition: int, offset: int) -> None:
        self._check()
        self._broker.committed[topic, partition] = offset

    def close(self) -> None:
        self._broker.closed += 1

    def _get(self, topic: str, partition: int) -> FakePartition:
        self._check()
        return self._broker.topics[topic][partition]

    def _check(self) -> None:
        if self._broker.is_away:
            raise BrokersUnavailable("Kafka is unavailable at fake:9092: no answer")
