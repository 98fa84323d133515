"""Topics of a real broker, and the stream from Kafka to Kafka with state that tests kill."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.metrics import Metrics
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec
from beam_spark_io import KafkaMessage, KafkaRecord, ReadFromKafka, WriteToKafka
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kafka_broker import KafkaBroker
from waiting import wait_until

PARTITIONS = 3
KEYS = 7


def create_topic(broker: KafkaBroker, name: str, **settings: str) -> str:
    """Creates a topic with a unique name, and returns the name."""
    topic = f"{name}-{time.time_ns()}"
    admin = AdminClient({"bootstrap.servers": broker.address})
    config = {key.replace("_", "."): value for key, value in settings.items()}
    new = NewTopic(topic, PARTITIONS, 1, config=config)
    admin.create_topics([new])[topic].result(60)
    return topic


def add_partition(broker: KafkaBroker, topic: str) -> None:
    """Adds a partition to a topic."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_partitions([NewPartitions(topic, PARTITIONS + 1)])[topic].result(60)
    wait_until(lambda: len(admin.list_topics(topic, 10).topics[topic].partitions) > PARTITIONS)


def record_failure(failures: list[Any], error: Any, _: Any) -> None:
    """Records a failed delivery."""
    if error is not None:
        failures.append(error)


def send_numbers(broker: KafkaBroker, topic: str, numbers: Iterable[int], **record: Any) -> None:
    """Appends numbers, each with its remainder as the key, in order, also while the broker restarts."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.address, "enable.idempotence": True})
    failures: list[Any] = []
    for number in numbers:
        fields = {"key": b"%d" % (number % KEYS), "value": b"%d" % number, **record}
        while True:
            try:
                producer.produce(topic, on_delivery=partial(record_failure, failures), **fields)
                break
            except BufferError:  # The queue of the client is full.
                producer.poll(0.1)
    assert producer.flush(60) == 0
    assert failures == []


class CountByKey(beam.DoFn):
    """DoFn that numbers the records of each key in the order of their arrival."""

    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())

    def process(
        self,
        element: tuple[bytes, int],
        count: Any = beam.DoFn.StateParam(COUNT),
    ) -> Iterator[KafkaRecord]:
        key, number = element
        index = count.read() or 0
        count.write(index + 1)
        Metrics.counter("kills", "counted").inc()
        yield KafkaRecord(b"%d %d" % (number, index), key)


class SendCarelessly(beam.DoFn):
    """DoFn with a plain producer, as a control: its process dies once after a delivery.

    The next attempt sends the same records again.
    """

    def __init__(self, address: str, topic: str, died: Path) -> None:
        self._address = address
        self._topic = topic
        self._died = died

    def start_bundle(self) -> None:
        # The class can't be pickled with the functions of this module.
        from confluent_kafka import Producer

        self._producer = Producer({"bootstrap.servers": self._address})

    def process(self, element: KafkaRecord) -> None:
        self._producer.produce(self._topic, element.value)

    def finish_bundle(self) -> None:
        self._producer.flush(60)
        if not self._died.exists():
            self._died.touch()
            os.kill(os.getpid(), signal.SIGKILL)


def make_pair(message: KafkaMessage) -> tuple[bytes, int]:
    """Returns the key and the number of a record."""
    assert message.key is not None
    assert message.value is not None
    return message.key, int(message.value)


def build_kafka_stream(
    pipeline: beam.Pipeline,
    broker: str,
    source: str,
    target: str,
    control: tuple[str, Path],
    inserted: int = 0,
) -> None:
    """Builds the stream, with a control that sends the same records carelessly to another topic.

    The name of the source is the consumer group that gets the offsets. Updates can insert stateless
    steps between the stateful step and the sink, which are one stage.
    """
    config = {"bootstrap.servers": broker}
    records = (
        pipeline
        | ReadFromKafka({**config, "group.id": source}, source, commit_offsets=True)
        | beam.Map(make_pair).with_output_types(tuple[bytes, int])
        | beam.ParDo(CountByKey())
    )
    for number in range(inserted):
        records = records | f"Inserted {number}" >> beam.Map(lambda record: record)
    _ = records | WriteToKafka(config, target, shards=2)
    topic, died = control
    _ = records | beam.ParDo(SendCarelessly(broker, topic, died))
