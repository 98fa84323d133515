"""Tests of the positions at which a read starts and stops."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from fake_broker import FakeBroker

from beam_spark_io.kafka.positions import COMMITTED, EARLIEST, LATEST, find_offset, make_position

KINDS = (EARLIEST, LATEST, COMMITTED)


def find(value: Any, default: str = EARLIEST) -> tuple[int, int]:
    """Returns the offsets of a position in a partition with the offsets 2 to 5 and an empty one."""
    broker = FakeBroker(t=2)
    for time in range(6):
        broker.append("t", time, time=1000 * time)
    broker.delete_before("t", 2)
    broker.committed["t", 0] = 4
    position = make_position("start", value, KINDS, default)
    connection = broker.connect()
    return find_offset(connection, position, "t", 0), find_offset(connection, position, "t", 1)


def test_kafka_position_is_converted_to_offset_in_each_partition() -> None:
    assert find(EARLIEST) == (2, 0)
    assert find(LATEST) == (6, 0)
    assert find(COMMITTED) == (4, 0)
    assert find({("t", 0): 5}) == (5, 0)
    assert find({("t", 1): 0}, LATEST) == (6, 0)


def test_kafka_start_time_is_converted_to_first_later_offset_or_end() -> None:
    assert find(datetime.fromtimestamp(3.5, UTC)) == (4, 0)
    assert find(datetime.fromtimestamp(60, UTC)) == (6, 0)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("first", "expected 'earliest'"),
        (datetime(2026, 1, 1), "time zone"),
        ({"t": 1}, r"\(topic, partition\)"),
        (7, "expected"),
    ],
)
def test_kafka_reader_with_wrong_start_position_is_refused(value: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make_position("start", value, KINDS, EARLIEST)
