"""Tests of the policies for event times."""

from __future__ import annotations

from typing import Any

import pytest
from apache_beam.utils.timestamp import Timestamp

from beam_spark_io.kafka.errors import KafkaReadError
from beam_spark_io.kafka.messages import APPEND_TIME, CREATE_TIME, KafkaMessage
from beam_spark_io.kafka.timestamps import PROCESSING_TIME, make_timestamp_policy

NOW = Timestamp(1000)


def make_message(time: int | None, kind: str) -> KafkaMessage:
    return KafkaMessage("t", 1, 7, None, b"42", [], time, kind)


@pytest.mark.parametrize(
    ("policy", "kind", "expected"),
    [
        (PROCESSING_TIME, CREATE_TIME, NOW),
        (CREATE_TIME, CREATE_TIME, Timestamp(5.5)),
        (CREATE_TIME, APPEND_TIME, Timestamp(5.5)),
        (APPEND_TIME, APPEND_TIME, Timestamp(5.5)),
        (lambda message: int(message.value), CREATE_TIME, Timestamp(42)),
    ],
)
def test_timestamp_policy_selects_event_time_of_record(
    policy: Any, kind: str, expected: Timestamp
) -> None:
    found = make_timestamp_policy(policy, 0.0).get_timestamp(make_message(5500, kind), NOW)
    assert found == expected


@pytest.mark.parametrize(
    ("policy", "time", "kind"),
    [(APPEND_TIME, 5, CREATE_TIME), (APPEND_TIME, None, ""), (CREATE_TIME, None, "")],
)
def test_record_without_timestamp_that_policy_needs_fails(
    policy: str, time: int | None, kind: str
) -> None:
    with pytest.raises(KafkaReadError, match="record 7 of topic 't', partition 1"):
        make_timestamp_policy(policy, 0.0).get_timestamp(make_message(time, kind), NOW)


def test_watermarks_are_delayed_as_policy_requires() -> None:
    create = make_timestamp_policy(CREATE_TIME, 30.0)
    assert create.compute_watermark(NOW) == Timestamp(970)
    assert create.compute_idle_watermark(NOW) == Timestamp(970)
    assert create.compute_discovery_watermark(NOW, 10.0) == Timestamp(970)
    processing = make_timestamp_policy(PROCESSING_TIME, 0.0)
    assert processing.compute_idle_watermark(NOW) == NOW
    assert processing.compute_discovery_watermark(NOW, 10.0) == Timestamp(1010)
    append = make_timestamp_policy(APPEND_TIME, 0.0)
    assert append.compute_watermark(NOW) == NOW
    assert append.compute_idle_watermark(NOW) < NOW


@pytest.mark.parametrize(
    ("policy", "delay", "text"),
    [
        ("EventTime", 0.0, "timestamp_policy is 'EventTime'"),
        (CREATE_TIME, -1.0, "max_delay is -1.0"),
        (APPEND_TIME, 5.0, "has no delay"),
    ],
)
def test_kafka_timestamp_policy_with_wrong_arguments_is_refused(
    policy: str, delay: float, text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        make_timestamp_policy(policy, delay)
