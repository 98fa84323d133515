"""Tests that counts and lengths equal the prefixes that Beam's coders write."""

from __future__ import annotations

import struct

import pytest
from apache_beam.coders.coders import BytesCoder, LengthPrefixCoder
from hypothesis import example, given
from hypothesis import strategies as st

from beam_runner_model.lengths import decode_count, encode_count, skip_length_prefixed
from beam_runner_model.varints import TruncatedData


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_value_count_is_encoded_as_a_signed_32_bit_integer(count: int) -> None:
    data = encode_count(count)
    assert data == struct.pack(">i", count)
    assert decode_count(b"?" + data + b"?", 1) == count
    with pytest.raises(TruncatedData):
        decode_count(data, 1)


@example(b"x" * 127)
@example(b"x" * 128)
@example(b"x" * 20_000)
@given(st.binary())
def test_length_prefixed_value_is_skipped(value: bytes) -> None:
    data = LengthPrefixCoder(BytesCoder()).encode(value)
    assert skip_length_prefixed(b"?" + data + b"?", 1) == 1 + len(data)
    assert skip_length_prefixed(data[:-1] or b"\x01", 0) >= len(data)
