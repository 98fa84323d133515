"""Tests that records and references round-trip, and that invalid bytes raise errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.keyed.records import LAYOUT, read_record, write_record
from beam_runner_engine.keyed.references import pack, unpack


@given(st.lists(st.binary(max_size=200)).map(tuple))
def test_references_come_back(parts: tuple[bytes, ...]) -> None:
    assert unpack(b"12345678" + pack(parts), 8) == parts


PARTS = st.lists(st.lists(st.sampled_from([0, 1, 97, 255])).map(bytes), max_size=3).map(tuple)


@given(PARTS, PARTS)
def test_packed_references_sort_as_references_do(
    one: tuple[bytes, ...], other: tuple[bytes, ...]
) -> None:
    assert (pack(one) < pack(other)) == (one < other)


@pytest.mark.parametrize("data", [pack((b"abc",))[:-1], b"\x02abc\x00"])
def test_what_is_no_reference_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="invalid data at byte 0"):
        unpack(data)


def test_records_come_back() -> None:
    values = (1, None, b"x", (True, [2]))
    assert read_record(write_record(values)) == values


def test_equal_values_give_equal_bytes_whatever_objects_they_are_made_of() -> None:
    shared = (1, (2, None))
    assert write_record((shared, shared)) == write_record((shared, (1, (2, None))))


@pytest.mark.parametrize("data", [b"", bytes((LAYOUT + 1,)) + b"rest"])
def test_records_of_another_layout_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=f"reads layout {LAYOUT}"):
        read_record(data)
