"""Tests that records of real Kafka topics arrive exactly once under kills, and that wrong settings are reported."""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
import victims
from apache_beam.testing.util import assert_that, equal_to
from beam_runner_model.jobs import JobState
from beam_spark_io import ReadFromSpark, ReadStreamFromSpark
from chaos import strike
from endings import arrives_once
from job_server import job_server
from jobs import Job, Pipelines, pickle_by_value
from kafka_broker import CONNECTOR, KafkaBroker
from lives import Lives, lives
from victims import Count, check_stream
from waiting import wait_until

kafka = pytest.importorskip("kafka", reason="wants the group kafka")

pickle_by_value(__name__)
pickle_by_value(victims.__name__)
SPARK = ("--spark-master-url=local[2]", f"--spark-conf=spark.jars.packages={CONNECTOR}")
KINDS = ("worker", "java", "server", "worker")
RECORDS = 200
"""Between kills."""
PARTITIONS = 3
FAST_SECONDS = 60.0
"""Limit for an error report on a busy machine, seconds; a Kafka client waits for minutes."""


def made(broker: KafkaBroker, name: str) -> str:
    """Creates a new topic."""
    admin = kafka.admin.KafkaAdminClient(bootstrap_servers=broker.address)
    admin.create_topics([kafka.admin.NewTopic(name, PARTITIONS, 1)])
    admin.close()
    return name


def send(broker: KafkaBroker, topic: str, numbers: Iterable[int]) -> None:
    """Adds numbers to a topic, a record each."""
    producer = kafka.KafkaProducer(bootstrap_servers=broker.address)
    for number in numbers:
        producer.send(topic, key=b"%d" % (number % 7), value=b"%d" % number)
    producer.close()


def of(broker: KafkaBroker, topic: str, **more: Any) -> dict[str, Any]:
    """Returns the options that read a topic from its start."""
    address = {"kafka.bootstrap.servers": broker.address}
    return {**address, "subscribe": topic, "startingOffsets": "earliest", **more}


@pytest.fixture(scope="module")
def pipelines() -> Iterator[Pipelines]:
    """Yields pipelines of a server whose Spark has the Kafka connector."""
    with tempfile.TemporaryDirectory(prefix="t") as folder, job_server(Path(folder), *SPARK) as one:
        yield Pipelines(one.address, "embedded", [])


def test_kafka_topic_is_read_to_its_end(broker: KafkaBroker, pipelines: Pipelines) -> None:
    topic = made(broker, "bounded")
    send(broker, topic, range(100))
    with pipelines.new() as p:
        rows = p | ReadFromSpark("kafka", options=of(broker, topic), columns=["key", "value"])
        found = rows | beam.Map(lambda row: (int(row.key), int(row.value)))
        assert_that(found, equal_to([(number % 7, number) for number in range(100)]))


def said(job: Job) -> str:
    """Returns the error of a failed job, which must arrive within the limit, in one line."""
    began = time.monotonic()
    assert job.wait(FAST_SECONDS) is JobState.FAILED, time.monotonic() - began
    text = job.messages()[-1].text
    assert "\tat " not in text
    (line,) = [line for line in text.splitlines() if "It/Spark" in line]
    return line


@pytest.mark.parametrize("read", [ReadFromSpark, ReadStreamFromSpark])
def test_kafka_configuration_error_is_reported_within_seconds(
    broker: KafkaBroker, pipelines: Pipelines, read: type[beam.PTransform]
) -> None:
    nobody = {**of(broker, "some"), "kafka.bootstrap.servers": "127.0.0.1:1,127.0.0.1:2"}
    for options, told in (
        (nobody, "127.0.0.1:1: Connection refused; 127.0.0.1:2: Connection refused"),
        (of(broker, "no-such-topic"), "no-such-topic"),
        ({"subscribe": "some"}, "kafka.bootstrap.servers"),
    ):
        p = pipelines.new()
        _ = p | "It" >> read("kafka", options=options)
        assert told in said(pipelines.job(p))


def test_spark_without_kafka_connector_reports_the_missing_package(
    broker: KafkaBroker, temporary: Path
) -> None:
    with job_server(temporary, "--spark-master-url=local[1]") as server:
        pipelines = Pipelines(server.address, "embedded", [])
        for read in (ReadFromSpark, ReadStreamFromSpark):
            p = pipelines.new()
            _ = p | "It" >> read("kafka", options=of(broker, "some"))
            assert "spark.jars.packages=org.apache.spark:spark-sql-kafka" in said(pipelines.job(p))


def counted(pipeline: beam.Pipeline, options: dict[str, Any]) -> None:
    """Counts the numbers of a topic by random keys as they arrive, and all together at the end."""
    pairs = (
        pipeline
        | ReadStreamFromSpark("kafka", options=options, columns=["value"], poll_seconds=0.1)
        | beam.ParDo(Count("first"))
        | beam.Map(lambda row: (random.randrange(5), int(row.value)))
    )
    check_stream(pairs, 1)


def rage(running: Lives, broker: KafkaBroker, topic: str, job: Job, chance: random.Random) -> int:
    """Sends numbers, and kills processes in between; returns the count of numbers."""
    total = 0
    for kind in (*KINDS, "broker", ""):
        for _ in range(4):
            send(broker, topic, range(total, total + RECORDS // 4))
            total += RECORDS // 4
            time.sleep(chance.uniform(0.0, 0.4))
        if kind == "broker":
            broker.kill()
            broker.start()
        elif kind:
            wait_until(lambda: job.counter("first"), 120, "something is committed")
            strike(running, kind, chance.randrange(100))
    return total


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_kafka_records_arrive_exactly_once(
    broker: KafkaBroker, temporary: Path, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    topic = made(broker, f"kills-{seed}")
    with lives(temporary, tmp_path / "state", *SPARK) as running:
        pipelines = Pipelines(running.address, "embedded", [])
        pipeline = pipelines.new()
        counted(pipeline, of(broker, topic, maxOffsetsPerTrigger=60))
        job = pipelines.job(pipeline)
        total = rage(running, broker, topic, job, chance)
        arrives_once(running, job, total, 240, f"seed {seed} of a stream of Kafka's")
