"""Tests that the Kafka sink writes each committed record once if processes are killed or suspended."""

from __future__ import annotations

import contextlib
import gc
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from beam_spark_io import KafkaRecord, WriteToKafka
from beam_spark_io.exactly_once.committing import CommitBatches
from beam_spark_io.exactly_once.protocols import CommitConflict, CommitId, SinkUnavailable
from beam_spark_io.kafka.sink import KafkaCommitter, KafkaSink
from confluent_kafka.admin import AdminClient, NewTopic
from disturbances import check_numbers, run_disturbed
from kafka_broker import KafkaBroker
from reading_topics import read_records

pytestmark = pytest.mark.timeout(1500)
FIRST = CommitId("run", 0, 1, b"1")
SECOND = CommitId("run", 0, 2, b"2")
_PARTITIONS = 3


class NumberSink(KafkaSink):
    """Kafka sink of the numbers of a stream, with the source as the key."""

    def select_shard(self, element: Any) -> int:
        return super().select_shard(make_record(element))

    def create_committer(self, run: str, shard: int) -> Any:
        committer = super().create_committer(run, shard)
        return NumberCommitter(committer)


class NumberCommitter:
    """Committer that makes records of numbers."""

    def __init__(self, committer: Any) -> None:
        self._committer = committer

    def commit(self, commit_id: CommitId, elements: Sequence[Any]) -> Any:
        return self._committer.commit(commit_id, [make_record(one) for one in elements])

    def close(self) -> None:
        self._committer.close()


def make_record(element: dict[str, int]) -> KafkaRecord:
    return KafkaRecord(json.dumps(element).encode(), str(element["source"]).encode())


@pytest.fixture
def topic(broker: KafkaBroker) -> str:
    name = f"topic-{time.time_ns()}"
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(name, _PARTITIONS, 1)])[name].result(60)
    return name


def make_sink(broker: KafkaBroker, topic: str, shards: int = 1) -> KafkaSink:
    return KafkaSink({"bootstrap.servers": broker.address}, topic, shards)


def create_committer(sink: KafkaSink) -> KafkaCommitter:
    """Creates a committer; waits while the broker looks for the coordinator of a new group."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return sink.create_committer("run", 0)
        except SinkUnavailable:
            assert time.monotonic() < deadline
            time.sleep(0.2)


def test_kafka_sink_with_a_repeated_commit_produces_each_record_once(
    broker: KafkaBroker, topic: str
) -> None:
    sink = make_sink(broker, topic)
    for _ in range(2):
        assert create_committer(sink).commit(FIRST, [(b"k", b"1"), (None, b"2")]) == 2
    record = KafkaRecord(b"3", b"k", (("h", b"x"),), topic, 2, 1234)
    create_committer(sink).commit(SECOND, [record])
    found = read_records(broker, topic)
    assert sorted(one.value for one in found) == [b"1", b"2", b"3"]
    (last,) = (one for one in found if one.value == b"3")
    assert (last.partition, last.timestamp, last.headers) == (2, 1234, [("h", b"x")])


def test_kafka_sink_fences_an_older_committer(broker: KafkaBroker, topic: str) -> None:
    sink = make_sink(broker, topic)
    old = create_committer(sink)
    new = create_committer(sink)
    with pytest.raises(SinkUnavailable):
        old.commit(FIRST, [(b"k", b"1")])
    assert new.commit(FIRST, [(b"k", b"1")]) == 1
    assert create_committer(sink).commit(FIRST, [(b"k", b"1")]) == 1
    assert len(read_records(broker, topic)) == 1


def test_kafka_sink_refuses_a_commit_that_contradicts_its_marks(
    broker: KafkaBroker, topic: str
) -> None:
    sink = make_sink(broker, topic)
    create_committer(sink).commit(FIRST, [(b"k", b"1")])
    with pytest.raises(CommitConflict, match="other elements"):
        create_committer(sink).commit(CommitId("run", 0, 1, b"x"), [(b"k", b"2")])
    with pytest.raises(CommitConflict, match="marks are lost"):
        create_committer(sink).commit(CommitId("run", 0, 3, b"3"), [(b"k", b"3")])


def test_kafka_sink_fails_for_an_unknown_topic_and_waits_for_an_absent_broker(
    broker: KafkaBroker, topic: str
) -> None:
    committer = create_committer(make_sink(broker, topic))
    with pytest.raises(Exception, match="(?i)unknown (topic|partition)") as failed:
        committer.commit(FIRST, [KafkaRecord(b"1", topic="absent")])
    assert not isinstance(failed.value, SinkUnavailable)


def test_kafka_committers_that_find_no_broker_leave_no_client_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A producer that is left behind initializes itself after the outage, and fences its successor."""
    monkeypatch.setattr("beam_spark_io.kafka.sink._SECONDS", 0.5)
    commits = CommitBatches(KafkaSink({"bootstrap.servers": "127.0.0.1:1"}, "topic", 1), 3.0)
    commits.setup()
    gc.collect()
    gc.disable()
    before = count_client_threads()
    try:
        with pytest.raises(SinkUnavailable):
            commits._commit_group(FIRST, [(b"k", b"1")])
        assert count_client_threads() <= before
    finally:
        gc.enable()


def count_client_threads() -> int:
    """Returns the number of clients of Kafka in this process, by their main threads."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # The thread has ended meanwhile.
            names.append((task / "comm").read_text())
    return sum(name.startswith("rdk:main") for name in names)


def test_kafka_sink_refuses_a_wrong_configuration() -> None:
    with pytest.raises(ValueError, match=r"lacks bootstrap.servers"):
        WriteToKafka({}, "topic")
    with pytest.raises(ValueError, match=r"has transactional.id"):
        WriteToKafka({"bootstrap.servers": "x:1", "transactional.id": "mine"}, "topic")


def test_kafka_sink_contains_each_record_once_after_killed_and_suspended_processes(
    broker: KafkaBroker, topic: str, temporary: Path, tmp_path: Path, kills: int, seed: int
) -> None:
    sink = NumberSink({"bootstrap.servers": broker.address}, topic, 2)
    done = run_disturbed(sink, None, temporary, tmp_path, kills, seed)
    values = [json.loads(one.value) for one in read_records(broker, topic)]
    found = [(one["source"], one["number"]) for one in values]
    print(f"SINK {json.dumps({'sink': 'kafka', 'seed': seed, 'elements': len(found), **done})}")
    check_numbers(found)
    assert len(found) > 100
    assert done["repeated"] > 0
