"""Reading of complete topics by another client than the one under test."""

from __future__ import annotations

import time
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka_broker import KafkaBroker
from kafka_streams import PARTITIONS

_SECONDS = 240.0
"""Maximum time without an end, longer than the timeout of a killed producer's transaction."""


def read_records(broker: KafkaBroker, topic: str) -> list[Any]:
    """Returns all committed records.

    Raises:
        AssertionError: The end isn't reached in time, because a transaction stays open.
    """
    consumer = KafkaConsumer(
        bootstrap_servers=broker.address,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    consumer.assign(partitions)
    ends = consumer.end_offsets(partitions)
    found: list[Any] = []
    deadline = time.monotonic() + _SECONDS
    while any(consumer.position(one) < ends[one] for one in partitions):
        places = [(consumer.position(one), ends[one]) for one in partitions]
        assert time.monotonic() < deadline, f"{topic} isn't read to its end: {places}"
        for records in consumer.poll(1000).values():
            found += records
    consumer.close()
    return found
