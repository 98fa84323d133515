"""Interface of the Kafka client that the reader needs. Tests implement it by a fake broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import attrs

from beam_spark_io.kafka.messages import KafkaMessage


@attrs.frozen
class OffsetBounds:
    """First and last offset of a partition.

    Attributes:
        low: the first offset that the broker still has.
        end: the offset after the last readable record; in a read of committed records, the start of the
            first open transaction.
    """

    low: int
    end: int


@attrs.frozen
class FetchResult:
    """Result of a fetch.

    Attributes:
        messages: records in the order of their offsets.
        end: the end offset of the partition, after transaction markers; None if the fetch didn't
            reach the end.
    """

    messages: Sequence[KafkaMessage] = ()
    end: int | None = None


class Connection(Protocol):
    """Connection of one DoFn to the brokers.

    All methods except `fetch`, `commit` and `close` raise `BrokersUnavailable` and `KafkaReadError`.
    """

    addresses: str

    def count_partitions(self, topic: str) -> int | None:
        """Returns the number of partitions of a topic; None if the topic doesn't exist."""

    def find_bounds(self, topic: str, partition: int) -> OffsetBounds:
        """Returns the offsets that a partition has now."""

    def has_hidden_records(self, topic: str, partition: int, end: int) -> bool:
        """Returns whether records after an offset aren't visible yet, because the transactions that
        wrote them are open.
        """

    def find_offset_at(self, topic: str, partition: int, time: int) -> int | None:
        """Returns the first offset at or after a time (ms); None if there is none."""

    def find_committed_offset(self, topic: str, partition: int) -> int | None:
        """Returns the offset that the consumer group has stored for a partition; None without one."""

    def fetch(self, topic: str, partition: int, offset: int, seconds: float) -> FetchResult:
        """Returns records from an offset on, as soon as there are any, or nothing after a time.

        Raises:
            KafkaReadError: The brokers refuse the read.
        """

    def commit(self, topic: str, partition: int, offset: int) -> None:
        """Stores an offset for the consumer group, without waiting for the answer."""

    def close(self) -> None:
        """Closes the connection."""


Connect: TypeAlias = Callable[[], Connection]
"""Function that makes a connection. Beam pickles the function."""
