"""Tests of the reading of one partition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest
from apache_beam.utils.timestamp import Timestamp
from fake_broker import FakeBroker
from harness import Bundle

from beam_spark_io.kafka import partition_reader
from beam_spark_io.kafka.errors import BrokersUnavailable, KafkaDataLoss
from beam_spark_io.kafka.idle_pauses import IdlePauses
from beam_spark_io.kafka.messages import CREATE_TIME
from beam_spark_io.kafka.partition_reader import PartitionReader, ReadSettings
from beam_spark_io.kafka.restrictions import ENDLESS
from beam_spark_io.kafka.timestamps import make_timestamp_policy

SETTINGS = ReadSettings(make_timestamp_policy(CREATE_TIME, 10.0), 0.1, False, 0.0)
SKIPS = attrs.evolve(SETTINGS, skips_lost=True)
STREAM = 0, ENDLESS, 0


@pytest.fixture
def broker() -> FakeBroker:
    return FakeBroker(t=1)


def read(
    broker: FakeBroker,
    bundle: Bundle,
    settings: ReadSettings = SETTINGS,
    pauses: IdlePauses | None = None,
    **split: Any,
) -> Bundle:
    """Runs a bundle of the partition."""
    _, stop, _ = bundle.restriction
    element = ("t", 0, 0, ENDLESS if stop == ENDLESS else stop)
    waits = pauses or IdlePauses(0.02, settings.poll_seconds)

    def process(tracker: Any, estimator: Any) -> Iterator[Any]:
        connection = broker.connect()
        yield from PartitionReader(settings, connection, waits, element, tracker, estimator).read()

    return bundle.run(process, **split)


def values(*numbers: int) -> list[bytes]:
    return [str(number).encode() for number in numbers]


def test_kafka_stream_reads_to_end_of_partition_and_defers_rest(broker: FakeBroker) -> None:
    broker.append("t", *range(7))
    bundle = read(broker, Bundle(STREAM))
    assert bundle.values == values(*range(7))
    assert bundle.residual == (7, ENDLESS, 7)
    broker.append("t", 7)
    again = read(broker, bundle.resume())
    assert again.values == values(7)
    assert again.residual == (8, ENDLESS, 8)


@pytest.mark.parametrize("after", range(1, 8))
def test_kafka_read_with_checkpoint_emits_each_record_once(broker: FakeBroker, after: int) -> None:
    broker.append("t", *range(7))
    bundle = read(broker, Bundle(STREAM), after=after)
    rest = read(broker, bundle.resume())
    assert bundle.values == values(*range(after))
    assert bundle.values + rest.values == values(*range(7))


def test_bounded_kafka_read_with_split_emits_each_record_once(broker: FakeBroker) -> None:
    broker.append("t", *range(20))
    bundle = read(broker, Bundle((0, 15, 0)), after=2, fraction=0.5)
    rest = read(broker, bundle.resume())
    assert bundle.values + rest.values == values(*range(15))
    assert rest.values
    assert rest.residual is None


def test_kafka_reader_skips_markers_of_transactions(broker: FakeBroker) -> None:
    broker.append("t", 0)
    broker.append_marker("t")
    assert read(broker, Bundle(STREAM)).residual == (2, ENDLESS, 2)
    bounded = read(broker, Bundle((0, 2, 0)))
    assert bounded.values == values(0)
    assert bounded.residual is None


def test_bounded_kafka_read_can_stop_in_gap_between_offsets(broker: FakeBroker) -> None:
    broker.append("t", *range(8))
    del broker.topics["t"][0].records[4], broker.topics["t"][0].records[5]
    bundle = read(broker, Bundle((0, 5, 0)))
    assert bundle.values == values(0, 1, 2, 3)
    assert bundle.residual is None


def test_kafka_watermark_follows_records_and_then_clock(broker: FakeBroker) -> None:
    broker.append("t", 0, 1, 2, time=50_000)
    broker.append("t", 3, time=20_000)
    busy = read(broker, Bundle(STREAM), after=4)
    assert [one.timestamp for one in busy.outputs] == [Timestamp(50)] * 3 + [Timestamp(20)]
    assert busy.watermark == Timestamp(40)
    before = Timestamp.now()
    idle = read(broker, busy.resume())
    assert idle.watermark is not None
    assert before - 10 <= idle.watermark <= Timestamp.now() - 10


def test_open_kafka_transaction_holds_watermark(broker: FakeBroker) -> None:
    broker.append("t", 0, time=50_000)
    broker.topics["t"][0].hidden = 1
    bundle = read(broker, Bundle(STREAM))
    assert bundle.watermark == Timestamp(40)
    assert bundle.residual == (1, ENDLESS, 1)


def test_kafka_records_deleted_before_read_fail_job_or_are_skipped(broker: FakeBroker) -> None:
    broker.append("t", *range(9))
    broker.delete_before("t", 5)
    with pytest.raises(KafkaDataLoss, match="'t', partition 0.*offsets from 0 to 4 are lost"):
        read(broker, Bundle(STREAM))
    bundle = read(broker, Bundle(STREAM), SKIPS)
    assert bundle.values == values(5, 6, 7, 8)
    assert bundle.residual == (9, ENDLESS, 9)
    assert read(broker, Bundle((0, 3, 0)), SKIPS).outputs == []


def test_kafka_partition_that_lost_read_records_fails_every_read(
    broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_reader, "_RETURN_SECONDS", 0.0)
    broker.append("t", 0)
    with pytest.raises(
        KafkaDataLoss, match="ends at offset 1, but the job has read up to offset 9"
    ):
        read(broker, Bundle((9, ENDLESS, 9)), SKIPS)


def test_kafka_outage_defers_stream_and_fails_bounded_read(broker: FakeBroker) -> None:
    broker.append("t", 0)
    broker.is_away = True
    bundle = read(broker, Bundle(STREAM, Timestamp(5)))
    assert bundle.residual == STREAM
    assert bundle.watermark == Timestamp(5)
    assert bundle.delay > 1
    with pytest.raises(BrokersUnavailable, match="fake:9092"):
        read(broker, Bundle((0, 1, 0)))
    broker.is_away = False
    assert read(broker, bundle.resume()).values == values(0)


def test_kafka_reader_without_new_records_pauses_longer(broker: FakeBroker) -> None:
    pauses = IdlePauses(0.02, 0.1)
    bundle, delays = Bundle(STREAM), []
    for _ in range(5):
        bundle = read(broker, bundle, pauses=pauses)
        delays.append(round(bundle.delay, 2))
        bundle = bundle.resume()
    assert delays == [0.02, 0.04, 0.08, 0.1, 0.1]
    broker.append("t", 0)
    assert read(broker, bundle, pauses=pauses).delay <= 0.02
