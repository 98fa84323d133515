"""Tests that records and references round-trip, and that invalid bytes raise errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.keyed.records import LAYOUT, decode_record, encode_record
from beam_runner_engine.keyed.references import pack_byte_strings, unpack_byte_strings


@given(st.lists(st.binary(max_size=200)).map(tuple))
def test_packed_byte_strings_round_trip(parts: tuple[bytes, ...]) -> None:
    assert unpack_byte_strings(b"12345678" + pack_byte_strings(parts), 8) == parts


PARTS = st.lists(st.lists(st.sampled_from([0, 1, 97, 255])).map(bytes), max_size=3).map(tuple)


@given(PARTS, PARTS)
def test_packed_byte_strings_sort_like_tuples(
    one: tuple[bytes, ...], other: tuple[bytes, ...]
) -> None:
    assert (pack_byte_strings(one) < pack_byte_strings(other)) == (one < other)


@pytest.mark.parametrize("data", [pack_byte_strings((b"abc",))[:-1], b"\x02abc\x00"])
def test_invalid_packed_byte_strings_raise_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="invalid data at byte 0"):
        unpack_byte_strings(data)


def test_encoded_record_round_trips() -> None:
    values = (1, None, b"x", (True, [2]))
    assert decode_record(encode_record(values)) == values


def test_equal_values_have_equal_encoded_records() -> None:
    shared = (1, (2, None))
    assert encode_record((shared, shared)) == encode_record((shared, (1, (2, None))))


@pytest.mark.parametrize("data", [b"", bytes((LAYOUT + 1,)) + b"rest"])
def test_record_with_an_unknown_layout_raises_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=f"reads layout {LAYOUT}"):
        decode_record(data)
