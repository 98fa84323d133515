"""Tests of `ReadFromKafka` in a pipeline of another runner, and of its arguments."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import MetricsFilter
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from fake_broker import FakeBroker

from beam_spark_io import ReadFromKafka
from beam_spark_io.kafka import transform

CONFIG = {"bootstrap.servers": "fake:9092"}


def test_bounded_kafka_read_emits_each_record_once_and_reports_lag(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = FakeBroker(a=2, b=1)
    broker.append("a", 1, 2, 3, partition=0)
    broker.append("a", 4, partition=1)
    broker.append("b", 5)
    monkeypatch.setattr(transform, "KafkaConnection", lambda _: broker.connect())
    pipeline = beam.Pipeline(runner=FnApiRunner())
    records = pipeline | ReadFromKafka(CONFIG, ["a", "b"], stop={("a", 0): 1})
    assert records.is_bounded
    assert_that(records | beam.Map(lambda r: int(r.value)), equal_to([1, 4, 5]))
    result = pipeline.run()
    assert result.wait_until_finish() == "DONE"
    gauges = result.metrics().query(MetricsFilter().with_namespace("kafka"))["gauges"]
    lags = {one.key.metric.name: one.result.value for one in gauges}
    assert lags == {"lag of a[0]": 2, "lag of a[1]": 0, "lag of b[0]": 0}


def test_kafka_read_without_stop_is_unbounded() -> None:
    assert not (beam.Pipeline() | ReadFromKafka(CONFIG, "a")).is_bounded


@pytest.mark.parametrize(
    ("config", "topics", "options", "text"),
    [
        ({}, "a", {}, "lacks bootstrap.servers"),
        ({**CONFIG, "auto.offset.reset": "latest"}, "a", {}, "has auto.offset.reset"),
        (CONFIG, [], {}, "topics is"),
        (CONFIG, [""], {}, "topics is"),
        (CONFIG, "a", {"start": "committed"}, "lacks group.id"),
        (CONFIG, "a", {"commit_offsets": True}, "lacks group.id"),
        (CONFIG, "a", {"stop": "earliest"}, "stop is 'earliest'"),
        (CONFIG, "a", {"on_data_loss": "ignore"}, "on_data_loss is 'ignore'"),
        (CONFIG, "a", {"discover_every": 0}, "discover_every is 0"),
        (CONFIG, "a", {"poll_seconds": -1}, "poll_seconds is -1"),
    ],
)
def test_kafka_read_with_wrong_argument_is_refused(
    config: dict[str, str], topics: Any, options: dict[str, Any], text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        ReadFromKafka(config, topics, **options)
