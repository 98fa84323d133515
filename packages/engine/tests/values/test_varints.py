"""Variable-length integers are written as Beam's `VarIntCoder` writes them."""

from __future__ import annotations

import pytest
from apache_beam.coders.coders import VarIntCoder
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.values.varints import decode_varint, encode_varint


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_same_bytes_as_beam(value: int) -> None:
    data = encode_varint(value)
    assert data == VarIntCoder().encode(value)
    assert decode_varint(b"?" + data + b"?", 1) == (value, 1 + len(data))


def test_too_large_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="64 signed bits"):
        encode_varint(1 << 63)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 11])
def test_unfinished_numbers_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="no variable-length integer"):
        decode_varint(data)
