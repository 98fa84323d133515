"""Layout of a windowed value (`beam:coder:windowed_value:v1`), and functions that read it without
decoding the element.

| part | bytes |
|---|---|
| event time | `TIME_BYTES`, an instant (`window_coders`): the byte order equals the order of times |
| number of windows | `COUNT_BYTES` |
| windows | concatenated, in the encoding of the window coder |
| pane | one or more (`panes`) |
| element | in the encoding of the element coder |

The *header* consists of all parts before the element.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import chain

from beam_runner_model.lengths import COUNT_BYTES, Skip, decode_count, encode_count
from beam_runner_model.panes import skip_pane
from beam_runner_model.times import END_OF_GLOBAL_WINDOW, Timestamp
from beam_runner_model.varints import TruncatedData
from beam_runner_model.window_coders import (
    INSTANT_BYTES,
    INSTANT_SHIFT,
    decode_instant,
    encode_instant,
)

TIME_BYTES = INSTANT_BYTES
WINDOWS_AT = TIME_BYTES + COUNT_BYTES
"""Offset of the first window in a windowed value."""
_ONE = encode_count(1)


def encode_windows_and_pane(window: bytes, pane: bytes) -> bytes:
    """Encodes the part of a header after the event time, for one window."""
    return b"".join((_ONE, window, pane))


def encode_header(time: Timestamp, window: bytes, pane: bytes) -> bytes:
    """Encodes the header of an element at this event time (ms) in one window."""
    return encode_instant(time) + encode_windows_and_pane(window, pane)


def read_windows(data: bytes, position: int, skip_window: Skip) -> tuple[tuple[bytes, ...], int]:
    """Reads the windows of the header whose number of windows is at `position`.

    Returns:
        The encoded windows and the offset of the pane.

    Raises:
        TruncatedData: If the data ends inside the number of windows or inside the windows.
    """
    count = _read_window_count(data, position)
    position += COUNT_BYTES
    windows = []
    for _ in range(count):
        begin, position = position, skip_window(data, position)
        windows.append(data[begin:position])
    return tuple(windows), position


def skip_windows(data: bytes, position: int, skip_window: Skip) -> int:
    """Returns the offset of the pane, given the offset of the number of windows.

    Raises:
        TruncatedData: If the data ends inside the number of windows or inside the windows.
    """
    count = _read_window_count(data, position)
    position += COUNT_BYTES
    for _ in range(count):
        position = skip_window(data, position)
    return position


def _read_window_count(data: bytes, position: int) -> int:
    """Reads the number of windows and checks that the data is long enough.

    If there are several windows, each window has at least one byte. Without the check, four
    arbitrary bytes could start a loop over empty windows that takes hours.

    Raises:
        TruncatedData: If the data ends inside the number of windows or inside the windows.
    """
    count = decode_count(data, position)
    if count > 1 and position + COUNT_BYTES + count > len(data):
        raise TruncatedData("Can't read the windows of an element: the data is truncated")
    return count


class HeaderReader:
    """Reader of headers that caches the decoded windows.

    Consecutive elements mostly share their windows and pane. The cache key is the encoded header
    without the event time. The encoding is prefix-free, so equal bytes at the same offset have the
    same meaning. For speed, callers look up `known` directly with the size of the last header.

    Attributes:
        known: the encoded windows of each header, by the header bytes after the event time. Headers
            without windows are never cached.
        size: the size in bytes of the last header, without the event time.
    """

    _MOST = 10_000

    def __init__(self, skip_window: Skip) -> None:
        self._skip_window = skip_window
        self.known: dict[bytes, tuple[bytes, ...]] = {}
        self.size = 0

    def read(self, data: bytes, position: int) -> tuple[bytes, ...]:
        """Returns the windows of the header whose number of windows is at `position`.

        Raises:
            IndexError: If the data ends inside the header.
        """
        windows, end = read_windows(data, position, self._skip_window)
        end = skip_pane(data, end)
        if end > len(data):
            raise TruncatedData("Can't read the header of an element: the data is truncated")
        self.size = end - position
        if not windows:
            return ()
        if len(self.known) >= self._MOST:
            self.known.clear()
        return self.known.setdefault(data[position:end], windows)


def copy_value_to_each_window(element: bytes, windows: Sequence[bytes]) -> Sequence[bytes]:
    """Returns one copy of a windowed value for each of its `windows`, in the same order."""
    if len(windows) == 1:
        return (element,)
    time, rest = element[:TIME_BYTES], element[WINDOWS_AT + sum(map(len, windows)) :]
    return [b"".join((time, _ONE, window, rest)) for window in windows]


def replace_window(element: bytes, pane_at: int, window: bytes) -> tuple[bytes, bytes, bytes]:
    """Replaces the only window of an encoded windowed value. Returns the bytes before the window, the
    new window, and the bytes after the window.

    `pane_at` is the offset of the pane in `element`.
    """
    return element[:WINDOWS_AT], window, element[pane_at:]


def read_event_time(element: bytes) -> Timestamp:
    """Returns the event time (ms) of a windowed value."""
    return decode_instant(element)


def find_earliest_event_time(elements: Iterable[bytes]) -> Timestamp:
    """Returns the earliest event time (ms) of windowed values, at least one."""
    return decode_instant(min(element[:TIME_BYTES] for element in elements))


def find_earliest_event_time_in(data: bytes, ends: Sequence[int]) -> Timestamp:
    """Returns the earliest event time (ms) of windowed values in `data`. `ends` holds the end
    offset of each value.
    """
    begins = chain((0,), ends[:-1])
    return decode_instant(min(data[begin : begin + TIME_BYTES] for begin in begins))


def compute_hold_time(time: Timestamp, windows: Iterable[bytes]) -> Timestamp:
    """Returns the event time (ms) at which elements hold the watermark.

    The result is the earlier of `time`, the elements' earliest event time, and the last timestamp
    of the earliest window. Beam doesn't restrict a timestamp to the element's window: the Python
    SDK emits some combined values 1 ms after the window. With a hold at that timestamp, the
    watermark would pass the window, and the element would be late.

    Args:
        time: the earliest event time (ms) of the elements.
        windows: the encoded windows of the elements, at least one.
    """
    first = min(windows)
    return min(time, decode_instant(first) - 1 if first else END_OF_GLOBAL_WINDOW)


def decode_event_times(encoded: Sequence[bytes]) -> list[Timestamp]:
    """Decodes event times, at least one."""
    if encoded.count(encoded[0]) == len(encoded):
        return [decode_instant(encoded[0])] * len(encoded)
    shifted = struct.unpack(f">{len(encoded)}Q", b"".join(encoded))
    return [time - INSTANT_SHIFT for time in shifted]
