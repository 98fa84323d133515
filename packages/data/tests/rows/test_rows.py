"""Tests that a row stores the number of its elements, and returns the elements unchanged."""

from __future__ import annotations

import pyarrow as pa
import pytest
from beam_runner_model.chunks import ElementChunk
from beam_runner_model.times import MIN_TIMESTAMP

from beam_runner_data.rows.row import RowKind, build_element_row, read_elements


@pytest.mark.parametrize("data", [b"", b"x", bytes(1000)])
def test_encoded_row_contains_its_elements(data: bytes) -> None:
    row = build_element_row(3, ElementChunk(7, data))
    assert (row.shard, row.kind, row.count) == (3, RowKind.ELEMENTS, 7)
    for stored in (row.data, pa.py_buffer(row.data)):
        assert read_elements(stored) == ElementChunk(7, data)


@pytest.mark.parametrize(("told", "kept"), [(None, MIN_TIMESTAMP), (0, 0), (-5, -5)])
def test_row_with_unknown_earliest_timestamp_has_minimum_timestamp(
    told: int | None, kept: int
) -> None:
    assert build_element_row(0, ElementChunk(1, b"x", min_timestamp=told)).min_timestamp == kept
