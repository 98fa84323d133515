"""Tests of the discovery of partitions, and of the DoFn that reads them."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from fake_broker import FakeBroker
from harness import Bundle

from beam_spark_io.kafka.dofns import (
    DiscoverPartitionsForever,
    DiscoverySettings,
    ReadPartitionsForever,
)
from beam_spark_io.kafka.errors import BrokersUnavailable, KafkaReadError
from beam_spark_io.kafka.messages import CREATE_TIME
from beam_spark_io.kafka.partition_reader import ReadSettings
from beam_spark_io.kafka.positions import LATEST, KafkaPosition
from beam_spark_io.kafka.restrictions import ENDLESS
from beam_spark_io.kafka.timestamps import PROCESSING_TIME, make_timestamp_policy

POLICY = make_timestamp_policy(CREATE_TIME, 10.0)
STREAM = DiscoverySettings(KafkaPosition(LATEST), None, 5.0, POLICY, 0.0)
ALL = 0, ENDLESS, 0


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker(t=2)
    made.append("t", 1, 2, partition=1)
    return made


def discover(broker: FakeBroker, bundle: Bundle, settings: DiscoverySettings = STREAM) -> Bundle:
    dofn = DiscoverPartitionsForever(broker.connect, settings)
    dofn.setup()
    return bundle.run(lambda tracker, estimator: dofn.process("t", tracker, estimator))


def read(dofn: ReadPartitionsForever, bundle: Bundle) -> None:
    element = "t", 1, 0, ENDLESS
    bundle.run(lambda tracker, estimator: dofn.process(element, bundle, tracker, estimator))


def emitted(bundle: Bundle) -> list[Any]:
    return [one.value for one in bundle.outputs]


def test_new_partitions_are_read_from_their_start(broker: FakeBroker) -> None:
    first = discover(broker, Bundle(ALL))
    assert emitted(first) == [("t", 0, 0, ENDLESS), ("t", 1, 2, ENDLESS)]
    assert {one.timestamp for one in first.outputs} == {MIN_TIMESTAMP}
    assert first.residual == (2, ENDLESS, 0)
    assert 4 < first.delay <= 5
    quiet = discover(broker, first.resume())
    assert quiet.outputs == []
    broker.topics["t"] += FakeBroker(t=1).topics["t"]
    broker.append("t", 3, partition=2)
    second = discover(broker, quiet.resume())
    assert emitted(second) == [("t", 2, 0, ENDLESS)]
    assert second.outputs[0].timestamp == quiet.watermark


def test_watermark_stays_behind_records_of_partitions_that_are_created_later(
    broker: FakeBroker,
) -> None:
    before = Timestamp.now()
    bundle = discover(broker, Bundle(ALL))
    assert bundle.watermark is not None
    assert before - 10 <= bundle.watermark <= Timestamp.now() - 10


def test_kafka_partition_discovery_without_an_interval_ends(broker: FakeBroker) -> None:
    assert discover(broker, Bundle(ALL), attrs.evolve(STREAM, every=None)).residual is None


def test_kafka_stop_offset_is_not_before_start_offset(broker: FakeBroker) -> None:
    stop = KafkaPosition("offsets", offsets={("t", 1): 1})
    settings = attrs.evolve(STREAM, every=None, stop=stop)
    assert emitted(discover(broker, Bundle(ALL), settings)) == [("t", 0, 0, 0), ("t", 1, 2, 2)]


def test_read_of_missing_topic_fails_with_topic_name() -> None:
    with pytest.raises(KafkaReadError, match="topic 't' doesn't exist in Kafka at fake:9092"):
        discover(FakeBroker(), Bundle(ALL))


def test_kafka_outage_fails_the_first_discovery_and_defers_later_discoveries(
    broker: FakeBroker,
) -> None:
    known = discover(broker, Bundle(ALL))
    broker.is_away = True
    with pytest.raises(BrokersUnavailable):
        discover(broker, Bundle(ALL))
    later = discover(broker, known.resume())
    assert later.residual == known.residual
    assert later.watermark == known.watermark


@pytest.mark.parametrize("commits", [False, True])
def test_consumer_group_offsets_are_stored_after_commit_of_bundle(
    broker: FakeBroker, *, commits: bool
) -> None:
    settings = ReadSettings(make_timestamp_policy(PROCESSING_TIME, 0.0), 0.1, False, 0.0)
    dofn = ReadPartitionsForever(broker.connect, settings, commits=commits)
    dofn.setup()
    bundle = Bundle(ALL)
    read(dofn, bundle)
    assert broker.committed == {}
    for callback in bundle.callbacks:
        callback()
    assert broker.committed == ({("t", 1): 2} if commits else {})
    idle = bundle.resume()
    read(dofn, idle)
    assert idle.callbacks == []
    dofn.teardown()
    assert (broker.opened, broker.closed) == (1, 1)


def test_failure_to_store_consumer_group_offsets_does_not_fail_job(broker: FakeBroker) -> None:
    settings = ReadSettings(make_timestamp_policy(PROCESSING_TIME, 0.0), 0.1, False, 0.0)
    dofn = ReadPartitionsForever(broker.connect, settings, commits=True)
    dofn.setup()
    bundle = Bundle(ALL)
    read(dofn, bundle)
    broker.is_away = True
    for callback in bundle.callbacks:
        callback()
    assert len(bundle.callbacks) == 1
