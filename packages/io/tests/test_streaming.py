"""Tests of the parts of `ReadStreamFromSpark`, and of the errors at its construction."""

from __future__ import annotations

import typing

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.utils.timestamp import Timestamp

from beam_spark_io import ReadStreamFromSpark


class Event(typing.NamedTuple):
    id: int
    at: Timestamp


def test_spark_stream_read_is_unbounded_and_has_typed_rows() -> None:
    rows = beam.Pipeline() | ReadStreamFromSpark("json", path="in", schema=Event, timestamp="at")
    assert not rows.is_bounded
    assert rows.element_type is Event


def test_spark_stream_rows_have_selected_columns() -> None:
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    rows = beam.Pipeline() | ReadStreamFromSpark("json", path="in", schema=schema, columns=["id"])
    assert [name for name, _ in rows.element_type._fields] == ["id"]


def test_spark_stream_with_unknown_timestamp_column_is_refused() -> None:
    with pytest.raises(ValueError, match="the timestamp column 'when' is missing from schema"):
        ReadStreamFromSpark("json", path="in", schema=Event, timestamp="when")
