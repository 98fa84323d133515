"""Reading of complete topics by another client than the one under test."""

from __future__ import annotations

from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka_broker import KafkaBroker
from kafka_streams import PARTITIONS


def read_records(broker: KafkaBroker, topic: str) -> list[Any]:
    """Returns all committed records."""
    consumer = KafkaConsumer(
        bootstrap_servers=broker.address,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    consumer.assign(partitions)
    ends = consumer.end_offsets(partitions)
    found: list[Any] = []
    while any(consumer.position(one) < ends[one] for one in partitions):
        for records in consumer.poll(1000).values():
            found += records
    consumer.close()
    return found
