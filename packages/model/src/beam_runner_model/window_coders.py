"""Encodings of windows: the standard window coders of Beam's model, as pure functions.

- `GLOBAL` (`beam:coder:global_window:v1`): no bytes.
- `INTERVAL` (`beam:coder:interval_window:v1`): end (instant), span in ms (varint).
- `CUSTOM` (`beam:coder:custom_window:v1`): last timestamp (instant), length (varint), encoded window.

An instant is eight big-endian bytes with an inverted sign bit, so the byte order equals the order
of times.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Mapping
from functools import lru_cache

from beam_runner_model.lengths import Skip, skip_length_prefixed
from beam_runner_model.times import Timestamp
from beam_runner_model.varints import TruncatedData, decode_varint, encode_varint, skip_varint
from beam_runner_model.windows import (
    GLOBAL_WINDOW,
    GlobalWindow,
    IntervalWindow,
    OpaqueWindow,
    Window,
)

INSTANT_SHIFT = 1 << 63
"""Offset that makes every time in ms non-negative."""
INSTANT_BYTES = 8
_INSTANT = struct.Struct(">Q")
_encode_span = lru_cache(maxsize=4096)(encode_varint)


class WindowCoder(enum.Enum):
    """Window coder of a collection, out of the standard coders of Beam's model."""

    GLOBAL = "global"
    INTERVAL = "interval"
    CUSTOM = "custom"


def encode_instant(time: Timestamp) -> bytes:
    """Encodes a time (ms) as eight bytes whose byte order equals the order of times."""
    return _INSTANT.pack(time + INSTANT_SHIFT)


def decode_instant(data: bytes, start: int = 0) -> Timestamp:
    """Decodes the time (ms) at `data[start]`.

    Raises:
        TruncatedData: If the data has fewer than eight bytes after `start`.
    """
    if len(data) - start < INSTANT_BYTES:
        raise TruncatedData(
            f"Can't decode a timestamp at byte {start} of {data!r}: expected 8 bytes"
        )
    time: int = _INSTANT.unpack_from(data, start)[0]
    return time - INSTANT_SHIFT


def encode_interval(start: Timestamp, end: Timestamp) -> bytes:
    """Encodes the interval window `[start, end)` (ms) without creating a window object."""
    return _INSTANT.pack(end + INSTANT_SHIFT) + _encode_span(end - start)


def encode_window(window: Window) -> bytes:
    """Encodes a window with the standard coder of the window's type: `GLOBAL`, `INTERVAL`, or
    `CUSTOM` for opaque windows.
    """
    match window:
        case IntervalWindow(start, end):
            return encode_interval(start, end)
        case GlobalWindow():
            return b""
        case OpaqueWindow(encoded, latest):
            return encode_instant(latest) + encode_varint(len(encoded)) + encoded


def decode_window_at(coder: WindowCoder, data: bytes, start: int = 0) -> tuple[Window, int]:
    """Decodes the window at `data[start]`.

    Returns:
        The window and the offset after the window.

    Raises:
        ValueError: If the bytes aren't a window of this coder.
    """
    if coder is WindowCoder.GLOBAL:
        return GLOBAL_WINDOW, start
    last = decode_instant(data, start)
    number, position = decode_varint(data, start + 8)
    if coder is WindowCoder.INTERVAL:
        return IntervalWindow(last - number, last), position
    end = position + number
    if number < 0 or end > len(data):
        raise ValueError(
            f"Can't decode the custom window at byte {start}: {len(data) - position} of {number} bytes remain"
        )
    return OpaqueWindow(data[position:end], last), end


def decode_window(coder: WindowCoder, data: bytes) -> Window:
    """Decodes a window from the complete `data`.

    Raises:
        ValueError: If bytes are missing or left over.
    """
    window, end = decode_window_at(coder, data)
    if end != len(data):
        raise ValueError(
            f"Can't decode a {coder.value} window: {data!r} has {len(data) - end} extra bytes at the end"
        )
    return window


def decode_max_timestamp(coder: WindowCoder, data: bytes) -> Timestamp:
    """Returns the last timestamp (event time, ms) in an encoded window without creating a window
    object.
    """
    if coder is WindowCoder.GLOBAL:
        return GLOBAL_WINDOW.max_timestamp()
    last = decode_instant(data)
    return last - 1 if coder is WindowCoder.INTERVAL else last


def create_skip_function(rest: Skip) -> Skip:
    """Returns a function that skips an instant and then applies `rest`."""
    return lambda data, position: rest(data, position + INSTANT_BYTES)


SKIP_WINDOW: Mapping[WindowCoder, Skip] = {
    WindowCoder.GLOBAL: lambda data, position: position,
    WindowCoder.INTERVAL: create_skip_function(skip_varint),
    WindowCoder.CUSTOM: create_skip_function(skip_length_prefixed),
}
"""Function that skips an encoded window, for each window coder."""
