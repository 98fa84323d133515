"""Tests that counts and lengths equal the prefixes that Beam's coders write."""

from __future__ import annotations

import struct

import pytest
from apache_beam.coders.coders import BytesCoder, LengthPrefixCoder
from hypothesis import example, given
from hypothesis import strategies as st

from beam_runner_model.lengths import decode_count, encode_count, skip_delimited
from beam_runner_model.varints import CutOff


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_counts_are_32_signed_bits(count: int) -> None:
    data = encode_count(count)
    assert data == struct.pack(">i", count)
    assert decode_count(b"?" + data + b"?", 1) == count
    with pytest.raises(CutOff):
        decode_count(data, 1)


@example(b"x" * 127)
@example(b"x" * 128)
@example(b"x" * 20_000)
@given(st.binary())
def test_delimited_values_are_skipped(value: bytes) -> None:
    data = LengthPrefixCoder(BytesCoder()).encode(value)
    assert skip_delimited(b"?" + data + b"?", 1) == 1 + len(data)
    assert skip_delimited(data[:-1] or b"\x01", 0) >= len(data)
