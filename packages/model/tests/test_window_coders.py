"""Tests that windows are encoded as Beam's coders encode them."""

from __future__ import annotations

import apache_beam.coders.coders as beam_coders
import pytest
from apache_beam.transforms.window import IntervalWindow as BeamIntervalWindow
from apache_beam.utils.timestamp import Timestamp as BeamTimestamp
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP
from beam_runner_model.window_coders import (
    WindowCoder,
    decode_instant,
    decode_max_timestamp,
    decode_window,
    decode_window_at,
    encode_instant,
    encode_window,
)
from beam_runner_model.windows import GLOBAL_WINDOW, IntervalWindow, OpaqueWindow

TIMES = st.integers(MIN_TIMESTAMP, MAX_TIMESTAMP)


@given(TIMES, TIMES)
def test_encoded_interval_window_equals_beam(a: int, b: int) -> None:
    start, end = min(a, b), max(a, b)
    ours = IntervalWindow(start, end)
    theirs = BeamIntervalWindow(
        BeamTimestamp(micros=start * 1000), BeamTimestamp(micros=end * 1000)
    )
    data = beam_coders.IntervalWindowCoder().encode(theirs)
    assert encode_window(ours) == data
    assert decode_window(WindowCoder.INTERVAL, data) == ours
    assert decode_max_timestamp(WindowCoder.INTERVAL, data) == ours.max_timestamp()


@given(TIMES, TIMES)
def test_encoded_instants_sort_like_times(a: int, b: int) -> None:
    assert (encode_instant(a) < encode_instant(b)) == (a < b)
    assert decode_instant(encode_instant(a)) == a


def test_global_window_is_encoded_as_no_bytes() -> None:
    assert encode_window(GLOBAL_WINDOW) == b""
    assert decode_window(WindowCoder.GLOBAL, b"") is GLOBAL_WINDOW
    assert decode_max_timestamp(WindowCoder.GLOBAL, b"") == GLOBAL_WINDOW.max_timestamp()


@given(st.binary(max_size=300), TIMES)
def test_opaque_window_is_encoded_as_custom_window(inner: bytes, latest: int) -> None:
    window = OpaqueWindow(inner, latest)
    data = encode_window(window)
    assert decode_window_at(WindowCoder.CUSTOM, b"??" + data + b"!", 2) == (window, 2 + len(data))
    assert decode_max_timestamp(WindowCoder.CUSTOM, data) == latest


@pytest.mark.parametrize(
    ("coder", "data", "message"),
    [
        (WindowCoder.INTERVAL, b"123", "8 bytes"),
        (WindowCoder.INTERVAL, b"12345678", "varint"),
        (WindowCoder.GLOBAL, b"x", "1 extra bytes"),
        (WindowCoder.CUSTOM, encode_instant(0) + b"\x05abc", "3 of 5 bytes remain"),
    ],
)
def test_invalid_window_bytes_raise_value_error(
    coder: WindowCoder, data: bytes, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        decode_window(coder, data)
