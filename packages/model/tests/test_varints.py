"""Tests that varints are encoded as Beam's `VarIntCoder` encodes them."""

from __future__ import annotations

import pytest
from apache_beam.coders.coders import VarIntCoder
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_model.varints import TruncatedData, decode_varint, encode_varint, skip_varint


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_encoded_varint_equals_beam(value: int) -> None:
    data = encode_varint(value)
    assert data == VarIntCoder().encode(value)
    assert decode_varint(b"?" + data + b"?", 1) == (value, 1 + len(data))
    assert skip_varint(b"?" + data + b"?", 1) == 1 + len(data)


def test_varint_encoding_of_a_too_large_number_raises_value_error() -> None:
    with pytest.raises(ValueError, match="64 signed bits"):
        encode_varint(1 << 63)


@pytest.mark.parametrize("data", [b"", b"\x80"])
def test_truncated_varint_raises_truncation_error(data: bytes) -> None:
    with pytest.raises(TruncatedData, match="Can't decode a varint"):
        decode_varint(data)
    with pytest.raises(IndexError):
        skip_varint(data, 0)


def test_overlong_varint_raises_value_error() -> None:
    with pytest.raises(ValueError, match="Can't decode a varint") as caught:
        decode_varint(b"\xff" * 11)
    assert not isinstance(caught.value, TruncatedData)
