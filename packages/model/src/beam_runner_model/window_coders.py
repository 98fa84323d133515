"""How windows are written as bytes: the standard coders of Beam's model, as pure functions.

| coder | URN | bytes |
|---|---|---|
| `GLOBAL` | `beam:coder:global_window:v1` | none |
| `INTERVAL` | `beam:coder:interval_window:v1` | end (instant), span in milliseconds (varint) |
| `CUSTOM` | `beam:coder:custom_window:v1` | last time (instant), length (varint), window's bytes |

An instant is eight bytes, big-endian, with the sign bit turned over so that bytes sort as times
do.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Mapping
from functools import lru_cache

from beam_runner_model.lengths import Skip, skip_delimited
from beam_runner_model.times import Timestamp
from beam_runner_model.varints import CutOff, decode_varint, encode_varint, skip_varint
from beam_runner_model.windows import (
    GLOBAL_WINDOW,
    GlobalWindow,
    IntervalWindow,
    OpaqueWindow,
    Window,
)

INSTANT_SHIFT = 1 << 63
"""Added to a time in ms, so that none is negative."""
INSTANT_BYTES = 8
_INSTANT = struct.Struct(">Q")
_encode_span = lru_cache(maxsize=4096)(encode_varint)


class WindowCoder(enum.Enum):
    """Which of the model's window encodings a collection uses."""

    GLOBAL = "global"
    INTERVAL = "interval"
    CUSTOM = "custom"


def encode_instant(time: Timestamp) -> bytes:
    """Encodes a time in ms as eight bytes that sort as times do."""
    return _INSTANT.pack(time + INSTANT_SHIFT)


def decode_instant(data: bytes, start: int = 0) -> Timestamp:
    """Decodes the time (ms) that begins at `data[start]`; CutOff if fewer than eight bytes are
    left.
    """
    if len(data) - start < INSTANT_BYTES:
        raise CutOff(f"no instant at byte {start} of {data!r}: it takes 8 bytes")
    time: int = _INSTANT.unpack_from(data, start)[0]
    return time - INSTANT_SHIFT


def encode_interval(start: Timestamp, end: Timestamp) -> bytes:
    """Encodes the interval window `[start, end)` (ms) without building it."""
    return _INSTANT.pack(end + INSTANT_SHIFT) + _encode_span(end - start)


def encode_window(window: Window) -> bytes:
    """Encodes a window with the coder of its kind: `GLOBAL`, `INTERVAL`, or `CUSTOM` for opaque
    windows.
    """
    match window:
        case IntervalWindow(start, end):
            return encode_interval(start, end)
        case GlobalWindow():
            return b""
        case OpaqueWindow(encoded, latest):
            return encode_instant(latest) + encode_varint(len(encoded)) + encoded


def decode_window_at(coder: WindowCoder, data: bytes, start: int = 0) -> tuple[Window, int]:
    """Decodes the window that begins at `data[start]`; returns it and the position after it.

    Raises ValueError when the bytes are not such a window.
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
            f"the custom window at byte {start} has {len(data) - position} of {number} bytes"
        )
    return OpaqueWindow(data[position:end], last), end


def decode_window(coder: WindowCoder, data: bytes) -> Window:
    """Decodes a window from exactly `data`; ValueError when bytes are missing or left over."""
    window, end = decode_window_at(coder, data)
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes follow the {coder.value} window in {data!r}")
    return window


def encoded_max_timestamp(coder: WindowCoder, data: bytes) -> Timestamp:
    """Returns the last timestamp (ms) inside an encoded window without building the window."""
    if coder is WindowCoder.GLOBAL:
        return GLOBAL_WINDOW.max_timestamp()
    last = decode_instant(data)
    return last - 1 if coder is WindowCoder.INTERVAL else last


def skip_instant_and(rest: Skip) -> Skip:
    """Returns what skips an instant and what follows it."""
    return lambda data, position: rest(data, position + INSTANT_BYTES)


SKIP_WINDOW: Mapping[WindowCoder, Skip] = {
    WindowCoder.GLOBAL: lambda data, position: position,
    WindowCoder.INTERVAL: skip_instant_and(skip_varint),
    WindowCoder.CUSTOM: skip_instant_and(skip_delimited),
}
"""Skips an encoded window, for each window coder."""
