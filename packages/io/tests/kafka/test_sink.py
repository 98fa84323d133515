"""Tests of commits to Kafka against a double of the client: two committers, and refused marks.

Tests of a real broker are in `tests/sinks`.
"""

from __future__ import annotations

import pickle
import sys

import pytest
from fake_transactions import Broker, KafkaError, KafkaException, TopicPartition

from beam_spark_io.exactly_once.committing import CommitBatches
from beam_spark_io.exactly_once.protocols import CommitConflict, CommitId, SinkUnavailable
from beam_spark_io.kafka.client import is_unavailable
from beam_spark_io.kafka.sink import KafkaCommitter, KafkaRecord, KafkaSink

FIRST = CommitId("run", 0, 1, b"1")
SECOND = CommitId("run", 0, 2, b"2")
EARLIER = (
    b"\x80\x05\x95\x94\x00\x00\x00\x00\x00\x00\x00\x8c\x18beam_spark_io.kafka.sink\x94\x8c\x0bKafkaRecord"
    b"\x94\x93\x94)\x81\x94}\x94(\x8c\x05value\x94C\x05value\x94\x8c\x03key\x94C\x03key\x94\x8c\x07headers"
    b"\x94\x8c\x04name\x94C\x06header\x94\x86\x94\x85\x94\x8c\x05topic\x94h\x0e\x8c\tpartition\x94K\x03"
    b"\x8c\ttimestamp\x94K\x05ub."
)
"""Pickled record with its state as a dictionary, as jobs of earlier versions have stored it."""
ONE, TWO = [(b"key", b"one")], [(b"key", b"two")]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    broker = Broker()
    monkeypatch.setitem(sys.modules, "confluent_kafka", broker.create_module())
    return broker


def make_committer() -> KafkaCommitter:
    sink = KafkaSink({"bootstrap.servers": "broker:9092"}, "topic", 1)
    return sink.create_committer("run", 0)


def test_pickled_record_is_equal_and_small() -> None:
    record = KafkaRecord(b"value", b"key", (("name", b"header"),), "topic", 3, 5)
    data = pickle.dumps(record, pickle.HIGHEST_PROTOCOL)
    assert pickle.loads(data) == record
    assert b"timestamp" not in data


def test_record_of_an_earlier_version_is_unpickled() -> None:
    assert pickle.loads(EARLIER) == KafkaRecord(
        b"value", b"key", (("name", b"header"),), "topic", 3, 5
    )


def test_repeated_kafka_commits_write_records_once(broker: Broker) -> None:
    for _ in range(2):
        assert make_committer().commit(FIRST, ONE) == 1
    make_committer().commit(SECOND, TWO)
    make_committer().commit(FIRST, ONE)
    assert broker.values == [b"one", b"two"]


def test_suspended_kafka_committer_that_continues_writes_no_records(broker: Broker) -> None:
    frozen = make_committer()
    other = make_committer()
    other.commit(FIRST, ONE)
    with pytest.raises(SinkUnavailable, match="fenced"):
        frozen.commit(FIRST, ONE)
    other.commit(SECOND, TWO)
    assert broker.values == [b"one", b"two"]


def test_kafka_committer_suspended_before_end_of_transaction_writes_no_records(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen = make_committer()
    commit = frozen._producer.commit_transaction

    def commit_after_another(seconds: float) -> None:
        make_committer().commit(FIRST, ONE)
        commit(seconds)

    monkeypatch.setattr(frozen._producer, "commit_transaction", commit_after_another)
    with pytest.raises(SinkUnavailable, match="fenced"):
        frozen.commit(FIRST, ONE)
    make_committer().commit(FIRST, ONE)
    assert broker.values == [b"one"]


def test_kafka_commit_with_old_state_or_lost_commit_mark_is_refused(broker: Broker) -> None:
    make_committer().commit(FIRST, ONE)
    make_committer().commit(SECOND, TWO)
    with pytest.raises(CommitConflict, match="other elements"):
        make_committer().commit(CommitId("run", 0, 2, b"other"), ONE)
    broker.offsets["beam-run-0"] = TopicPartition("topic", 0)
    with pytest.raises(CommitConflict, match="marks are lost"):
        make_committer().commit(CommitId("run", 0, 3, b"3"), ONE)
    assert broker.values == [b"one", b"two"]


def test_closed_kafka_committer_refers_to_no_producer(broker: Broker) -> None:
    committer = make_committer()
    assert len(broker.producers) == 1
    committer.close()
    assert len(broker.producers) == 0


@pytest.mark.parametrize("failing", ["init_transactions", "committed"])
def test_kafka_committer_that_finds_an_outage_is_closed(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    closed: list[KafkaCommitter] = []
    monkeypatch.setattr(KafkaCommitter, "close", lambda one: closed.append(one))
    broker.failing = failing
    with pytest.raises(SinkUnavailable):
        make_committer()
    assert len(closed) == 1


def test_kafka_committer_continues_after_another_process_used_its_shard(broker: Broker) -> None:
    """The first process has committed 1, and another one 2, before the first process gets 3."""
    sink = KafkaSink({"bootstrap.servers": "broker:9092"}, "topic", 1)
    first = CommitBatches(sink, None)
    first.setup()
    first._commit_group(FIRST, ONE)
    make_committer().commit(SECOND, TWO)
    first._commit_group(CommitId("run", 0, 3, b"3"), [(b"key", b"three")])
    assert broker.values == [b"one", b"two", b"three"]


@pytest.mark.parametrize(
    "step", ["init_transactions", "committed", "send_offsets_to_transaction", "commit_transaction"]
)
def test_kafka_commit_waits_for_brokers_at_each_step(broker: Broker, step: str) -> None:
    broker.failing = step
    with pytest.raises(SinkUnavailable, match="all brokers are down"):
        make_committer().commit(FIRST, ONE)
    broker.failing = ""
    make_committer().commit(FIRST, ONE)
    assert broker.values == [b"one"]


def test_kafka_error_of_the_commit_mark_is_not_taken_for_a_lost_mark(broker: Broker) -> None:
    make_committer().commit(FIRST, ONE)
    broker.offset_error = KafkaError(29, "the group isn't authorized")
    with pytest.raises(KafkaException) as refused:
        make_committer().commit(SECOND, TWO)
    assert refused.value.args[0].str() == "the group isn't authorized"
    broker.offset_error = KafkaError(KafkaError._TRANSPORT, "all brokers are down")
    with pytest.raises(SinkUnavailable, match="all brokers are down"):
        make_committer().commit(SECOND, TWO)
    broker.offset_error = None
    make_committer().commit(SECOND, TWO)
    assert broker.values == [b"one", b"two"]


@pytest.mark.parametrize(
    ("name", "is_away"),
    [
        *(("_ALL_BROKERS_DOWN", True), ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", True)),
        *(("INVALID_PRODUCER_ID_MAPPING", True), ("_FATAL", True)),
        *(("MSG_SIZE_TOO_LARGE", False), ("UNKNOWN_TOPIC_OR_PART", False)),
        *(("TOPIC_AUTHORIZATION_FAILED", False), ("_INVALID_ARG", False)),
    ],
)
def test_errors_of_brokers_are_outages(name: str, is_away: bool) -> None:
    kafka = pytest.importorskip("confluent_kafka", reason="the extra `kafka` isn't installed")
    assert is_unavailable(kafka.KafkaError(getattr(kafka.KafkaError, name))) is is_away
