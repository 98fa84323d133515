"""Each record of a topic arrives once in another topic, with exact state, under all kinds of kills."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.metric_values import decode_metric_value
from beam_runner_model.jobs import JobState
from beam_spark_io import ReadFromKafka
from beam_spark_io.kafka.connection import KafkaConnection
from beam_spark_io.kafka.patience import wait_for_brokers
from disturbances import disturb, drain
from jobs import Job, Pipelines
from kafka_broker import KafkaBroker
from kafka_streams import (
    KEYS,
    PARTITIONS,
    add_partition,
    build_kafka_stream,
    create_topic,
    make_pair,
    send_numbers,
)
from lives import Lives, lives
from reading_topics import read_records
from waiting import wait_until

pytestmark = pytest.mark.timeout(1500)
_RECORDS = 2000
"""Number of records between two kills."""
_UPDATES = 4
_BURST = 20_000
_SECONDS = 240
_OUTAGE = 12.0
_FAILED = "beam_spark:stage:bundles_failed:v1"


def read_lags(job: Job, topic: str) -> list[int | None]:
    """Returns the lag of each partition, as the job's metrics report it."""
    lags = [job.metric("gauges", f"lag of {topic}[{number}]")[1] for number in range(PARTITIONS)]
    return [None if lag is None else lag.value for lag in lags]


def count_failures(running: Lives, job: Job) -> int:
    """Returns the number of failed attempts."""
    with JobClient(running.address) as client:
        infos = client.get_metrics(job.job_id).attempted
    return sum(int(decode_metric_value(one)) for one in infos if one.urn == _FAILED)


def find_committed_offset(broker: KafkaBroker, source: str) -> int | None:
    """Returns the offset of the added partition that the stream has stored for its group."""
    connection = KafkaConnection({"bootstrap.servers": broker.address, "group.id": source})
    found = wait_for_brokers(lambda: connection.find_committed_offset(source, PARTITIONS), 30)
    connection.close()
    return found


def test_kafka_records_arrive_once_with_exact_state_after_killed_processes_and_broker(
    broker: KafkaBroker, temporary: Path, tmp_path: Path, kills: int, seed: int
) -> None:
    source, target, careless = (
        create_topic(broker, name) for name in ("source", "target", "careless")
    )
    chance, total, done = random.Random(seed), 0, Counter[str]()
    with lives(temporary, tmp_path / "state", "--without-spark") as running:
        pipelines = Pipelines(running.address, "embedded", ())
        pipeline = pipelines.new("--streaming")
        control = careless, tmp_path / "died"
        build_kafka_stream(pipeline, broker.address, source, target, control)
        job = pipelines.job(pipeline)
        for number in range(kills):
            send_numbers(broker, source, range(total, total + _RECORDS))
            total += _RECORDS
            if number == kills // 2:
                broker.kill()
                time.sleep(chance.uniform(0.0, 5.0))
                broker.start()
                done["broker"] += 1
            else:
                done += disturb(running, 1, chance.randrange(10**6))
        wait_until(lambda: job.counter("counted") >= total, _SECONDS, "all records are counted")
        began = time.monotonic()
        send_numbers(broker, source, range(total, total + _BURST))
        total += _BURST
        wait_until(lambda: job.counter("counted") >= total, _SECONDS, "the burst is counted")
        rate = _BURST / (time.monotonic() - began)
        wait_until(lambda: read_lags(job, source) == [0] * PARTITIONS, 60, "the lag falls to 0")
        drain(running.address, job.job_id)
    found = [tuple(map(int, one.value.split())) for one in read_records(broker, target)]
    result = {"seed": seed, "records": total, "found": len(found), **done, "burst/s": round(rate)}
    doubled = [number for number, times in Counter(n for n, _ in found).items() if times > 1]
    lost = set(range(total)) - {number for number, _ in found}
    sent = [one.value for one in read_records(broker, careless)]
    moved = sum(index != number // KEYS for number, index in found)
    result |= {"lost": len(lost), "doubled": len(doubled), "moved": moved}
    result["control"] = len(sent) - len(set(sent))
    print(f"SINK {json.dumps({'sink': 'kafka to kafka', **result})}")
    assert (lost, doubled) == (set(), [])
    # A worker that is killed between a checkpoint and its commit changes the order, but not the counts.
    assert {(number % KEYS, index) for number, index in found} == {
        (number % KEYS, number // KEYS) for number in range(total)
    }
    assert len(sent) > len(set(sent))


def test_kafka_stream_that_is_updated_writes_each_record_once(
    broker: KafkaBroker, temporary: Path, tmp_path: Path
) -> None:
    source, target = create_topic(broker, "source"), create_topic(broker, "target")
    (tmp_path / "died").touch()
    control, total = (create_topic(broker, "careless"), tmp_path / "died"), 0
    with lives(temporary, tmp_path / "state", "--without-spark") as running:
        pipelines = Pipelines(running.address, "embedded", ())
        for number in range(_UPDATES + 1):
            flags = ("--update", f"--beam_spark_update_quiet={number % 2}s") if number else ()
            pipeline = pipelines.new("--streaming", "--job_name=copies", *flags)
            build_kafka_stream(pipeline, broker.address, source, target, control, number % 2)
            job = pipelines.job(pipeline)
            job.wait_for(JobState.RUNNING)
            send_numbers(broker, source, range(total, total + _RECORDS))
            total += _RECORDS
        wait_until(lambda: len(read_records(broker, target)) >= total, _SECONDS, "all records came")
        drain(running.address, job.job_id)
    found = [tuple(map(int, one.value.split())) for one in read_records(broker, target)]
    print(f"SINK {json.dumps({'sink': 'kafka, updated', 'records': total, 'found': len(found)})}")
    assert sorted(number for number, _ in found) == list(range(total))
    assert {(number % KEYS, index) for number, index in found} == {
        (number % KEYS, number // KEYS) for number in range(total)
    }


def test_stream_waits_for_brokers_and_reads_new_partitions(
    broker: KafkaBroker, temporary: Path, tmp_path: Path
) -> None:
    source, target = create_topic(broker, "source"), create_topic(broker, "target")
    died = tmp_path / "died"
    died.touch()
    with lives(temporary, tmp_path / "state", "--without-spark") as running:
        pipeline = Pipelines(running.address, "embedded", ()).new("--streaming")
        build_kafka_stream(pipeline, broker.address, source, target, (target, died))
        job = Pipelines(running.address, "embedded", ()).job(pipeline)
        send_numbers(broker, source, range(100))
        wait_until(lambda: job.counter("counted") == 100, 60, "the first records are counted")
        broker.kill()
        time.sleep(_OUTAGE)
        broker.start()
        add_partition(broker, source)
        send_numbers(broker, source, range(100, 200), partition=PARTITIONS)
        wait_until(lambda: job.counter("counted") == 200, 90, "the later records are counted")
        assert count_failures(running, job) == 0
        wait_until(lambda: find_committed_offset(broker, source) == 100, 60, "offsets are stored")
        drain(running.address, job.job_id)


@pytest.mark.parametrize("environment", ["embedded", "LOOPBACK"])
def test_bounded_kafka_read_on_the_server_returns_each_record_once(
    broker: KafkaBroker, temporary: Path, tmp_path: Path, environment: str
) -> None:
    source = create_topic(broker, "bounded")
    send_numbers(broker, source, range(3000))
    flags = ("--environment_type=LOOPBACK",) if environment == "LOOPBACK" else ()
    config = {"bootstrap.servers": broker.address}
    with lives(temporary, tmp_path / "state", "--without-spark") as running:
        pipeline = Pipelines(running.address, environment, flags).new()
        records = pipeline | ReadFromKafka(config, source, stop="latest")
        counts = records | beam.Map(make_pair) | beam.combiners.Count.PerKey()
        expected = [(b"%d" % key, len(range(key, 3000, KEYS))) for key in range(KEYS)]
        assert_that(counts, equal_to(expected))
        job = Pipelines(running.address, environment, flags).job(pipeline)
        assert job.wait() is JobState.DONE
