"""Connection of `ReadFromKafka` to a real broker: bounds, transactions, retention, outages, errors."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from beam_spark_io import ReadFromKafka
from beam_spark_io.kafka.connection import KafkaConnection
from beam_spark_io.kafka.errors import BrokersUnavailable, KafkaReadError
from beam_spark_io.kafka.messages import KafkaHeader, KafkaMessage
from beam_spark_io.kafka.patience import wait_for_brokers
from beam_spark_io.kafka.ports import OffsetBounds
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka_broker import KafkaBroker
from kafka_streams import add_partition, create_topic, send_numbers


@pytest.fixture
def connection(broker: KafkaBroker) -> Iterator[KafkaConnection]:
    made = KafkaConnection({"bootstrap.servers": broker.address, "group.id": f"g{time.time_ns()}"})
    yield made
    made.close()


def fetch_all(connection: KafkaConnection, topic: str, offset: int = 0) -> list[KafkaMessage]:
    """Returns all records of the first partition from an offset on."""
    found: list[KafkaMessage] = []
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        fetched = connection.fetch(topic, 0, offset, 1.0)
        found += fetched.messages
        if fetched.end is not None:
            assert fetched.end == connection.find_bounds(topic, 0).end
            return found
        offset = found[-1].offset + 1 if found else offset
    raise AssertionError("the fetches never reached the end")


def read_bounded(broker: KafkaBroker, topic: str, expected: list[int], **options: Any) -> None:
    """Reads a topic to its end by another runner, and checks the numbers."""
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        config = {"bootstrap.servers": broker.address, **options.pop("config", {})}
        read = ReadFromKafka(config, topic, stop=options.pop("stop", "latest"), **options)
        assert_that(pipeline | read | beam.Map(lambda one: int(one.value)), equal_to(expected))


def delete_records(broker: KafkaBroker, topic: str, before: int) -> None:
    """Deletes the records of the first partition before an offset, as the retention does."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    place = TopicPartition(topic, 0, before)
    admin.delete_records([place])[place].result(30)


def test_kafka_record_has_key_value_headers_and_timestamp(
    broker: KafkaBroker, connection: KafkaConnection
) -> None:
    topic = create_topic(broker, "fields")
    headers = [("a", b"1"), ("a", None)]
    send_numbers(broker, topic, [5], partition=0, headers=headers, timestamp=1234)
    send_numbers(broker, topic, [6], partition=0, key=None, value=None)
    first, second = fetch_all(connection, topic)
    named = [KafkaHeader("a", b"1"), KafkaHeader("a", None)]
    assert first == KafkaMessage(topic, 0, 0, b"5", b"5", named, 1234, "CreateTime")
    assert (second.key, second.value, second.headers) == (None, None, [])


def test_kafka_records_of_open_and_aborted_transactions_are_not_read(
    broker: KafkaBroker, connection: KafkaConnection
) -> None:
    topic = create_topic(broker, "transactions")
    send_numbers(broker, topic, [0], partition=0)
    producer = Producer({"bootstrap.servers": broker.address, "transactional.id": topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"1", partition=0)
    producer.flush(30)
    assert connection.find_bounds(topic, 0) == OffsetBounds(0, 1)
    assert connection.has_hidden_records(topic, 0, 1)
    producer.abort_transaction(30)
    producer.begin_transaction()
    producer.produce(topic, b"2", partition=0)
    producer.commit_transaction(30)
    assert [one.value for one in fetch_all(connection, topic)] == [b"0", b"2"]
    bounds = connection.find_bounds(topic, 0)
    assert bounds == OffsetBounds(0, 5)
    assert not connection.has_hidden_records(topic, 0, bounds.end)
    read_bounded(broker, topic, [0, 2])
    read_bounded(broker, topic, [0, 1, 2], config={"isolation.level": "read_uncommitted"})


def test_kafka_fetch_returns_records_of_the_requested_offset_and_partition(
    broker: KafkaBroker, connection: KafkaConnection
) -> None:
    topic = create_topic(broker, "seeks")
    for partition in (0, 1):
        send_numbers(broker, topic, range(5), partition=partition)
    assert [one.offset for one in fetch_all(connection, topic)] == [0, 1, 2, 3, 4]
    assert connection.fetch(topic, 1, 3, 5.0).messages[0].partition == 1
    assert [one.offset for one in fetch_all(connection, topic, 2)] == [2, 3, 4]
    send_numbers(broker, topic, [5], partition=0)
    assert [one.offset for one in fetch_all(connection, topic, 5)] == [5]


def test_kafka_offsets_are_found_by_time_and_by_consumer_group(
    broker: KafkaBroker, connection: KafkaConnection
) -> None:
    topic = create_topic(broker, "positions")
    for number in range(4):
        send_numbers(broker, topic, [number], partition=0, timestamp=1000 + 1000 * number)
    assert connection.find_offset_at(topic, 0, 2500) == 2
    assert connection.find_offset_at(topic, 0, 9999) is None
    assert connection.find_committed_offset(topic, 0) is None
    connection.commit(topic, 0, 3)
    deadline = time.monotonic() + 30
    while connection.find_committed_offset(topic, 0) != 3:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    start, stop = (datetime.fromtimestamp(second, UTC) for second in (2, 4))
    read_bounded(broker, topic, [1, 2], start=start, stop=stop)


def test_deleted_kafka_records_raise_an_error_or_are_skipped(broker: KafkaBroker) -> None:
    topic = create_topic(broker, "retention")
    send_numbers(broker, topic, range(10), partition=0)
    delete_records(broker, topic, 4)
    read_bounded(broker, topic, list(range(4, 10)))
    start = {(topic, 0): 1}
    with pytest.raises(Exception, match="partition 0, begins at offset 4.*from 1 to 3 are lost"):
        read_bounded(broker, topic, [], start=start)
    read_bounded(broker, topic, list(range(4, 10)), start=start, on_data_loss="skip")


def test_kafka_client_without_the_requested_offset_selects_no_other_offset(
    broker: KafkaBroker, connection: KafkaConnection
) -> None:
    topic = create_topic(broker, "resets")
    send_numbers(broker, topic, range(10), partition=0)
    delete_records(broker, topic, 4)
    assert connection.fetch(topic, 0, 1, 10.0).messages == []
    assert connection.find_bounds(topic, 0) == OffsetBounds(4, 10)
    assert [one.offset for one in fetch_all(connection, topic, 4)] == list(range(4, 10))


def test_new_kafka_partition_is_counted_and_read_by_an_open_connection(
    broker: KafkaBroker, connection: KafkaConnection
) -> None:
    topic = create_topic(broker, "growing")
    assert connection.count_partitions(topic) == 3
    empty = OffsetBounds(0, 0)
    assert wait_for_brokers(lambda: connection.find_bounds(topic, 0), 30) == empty
    add_partition(broker, topic)
    assert wait_for_brokers(lambda: connection.find_bounds(topic, 3), 30) == empty
    assert not connection.has_hidden_records(topic, 3, 0)
    assert connection.count_partitions(topic) == 4


def test_missing_kafka_topic_and_brokers_are_reported_by_name(
    broker: KafkaBroker, connection: KafkaConnection
) -> None:
    assert connection.count_partitions("absent") is None
    with pytest.raises(KafkaReadError, match="'absent', partition 0 doesn't exist in Kafka at"):
        connection.find_bounds("absent", 0)
    with pytest.raises(Exception, match="topic 'absent' doesn't exist in Kafka at 127"):
        read_bounded(broker, "absent", [])
    nowhere = KafkaConnection({"bootstrap.servers": "127.0.0.1:1"})
    with pytest.raises(
        BrokersUnavailable, match=r"unavailable at 127.0.0.1:1: .*Connection refused"
    ):
        nowhere.count_partitions("any")
    nowhere.close()
    with pytest.raises(KafkaReadError, match="refuses the config: .*no.such.property"):
        KafkaConnection({"bootstrap.servers": broker.address, "no.such.property": "1"})
