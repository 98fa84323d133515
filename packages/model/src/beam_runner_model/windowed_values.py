"""The layout of a windowed value (`beam:coder:windowed_value:v1`), which is read without decoding.

| part | bytes |
|---|---|
| event time | `TIME_BYTES`, an instant (`window_coders`): bytes sort as times do |
| number of windows | `COUNT_BYTES` |
| windows | one after the other, by the window coder |
| pane | one or more (`panes`) |
| element | by its own coder |

The *header* is all before the element.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from itertools import chain

from beam_runner_model.lengths import COUNT_BYTES, Skip, decode_count, encode_count
from beam_runner_model.panes import skip_pane
from beam_runner_model.times import END_OF_GLOBAL_WINDOW, Timestamp
from beam_runner_model.varints import CutOff
from beam_runner_model.window_coders import (
    INSTANT_BYTES,
    INSTANT_SHIFT,
    decode_instant,
    encode_instant,
)

TIME_BYTES = INSTANT_BYTES
WINDOWS_AT = TIME_BYTES + COUNT_BYTES
"""Where the windows begin in a windowed value."""
_ONE = encode_count(1)


def header_of_one(window: bytes, pane: bytes) -> bytes:
    """Encodes what follows the time of an element in one window."""
    return b"".join((_ONE, window, pane))


def encode_header(time: Timestamp, window: bytes, pane: bytes) -> bytes:
    """Encodes the header of an element at this time (ms) in one window."""
    return encode_instant(time) + header_of_one(window, pane)


def read_windows(data: bytes, position: int, skip_window: Skip) -> tuple[tuple[bytes, ...], int]:
    """Reads the windows of a header whose number of windows is at `position`.

    Returns them, encoded, and the position of the pane. Raises IndexError when the data ends within
    their number, or has fewer bytes than that.
    """
    count = _number_of_windows(data, position)
    position += COUNT_BYTES
    windows = []
    for _ in range(count):
        begin, position = position, skip_window(data, position)
        windows.append(data[begin:position])
    return tuple(windows), position


def skip_windows(data: bytes, position: int, skip_window: Skip) -> int:
    """Returns the position of the pane, given that of the number of windows."""
    count = _number_of_windows(data, position)
    position += COUNT_BYTES
    for _ in range(count):
        position = skip_window(data, position)
    return position


def _number_of_windows(data: bytes, position: int) -> int:
    """Each of several windows has a byte at least: a number that is none is not counted up to.

    Else four bytes of anything could take hours, where windows have no bytes.
    """
    count = decode_count(data, position)
    if count > 1 and position + COUNT_BYTES + count > len(data):
        raise CutOff("the data ends within the windows")
    return count


class Headers:
    """Reads what follows the time in windowed values, and remembers what it has read.

    Elements that follow each other mostly share windows and pane, so what was read once is looked
    up by its bytes: such bytes end where they say they end, so equal bytes at the same place mean
    the same. For speed callers look into `known` themselves, with the size of the last header.

    `known` has the windows of headers by their bytes from the number of windows on; a header without
    windows is never in it. `size` is the number of bytes of the header that was read last.
    """

    _MOST = 10_000

    def __init__(self, skip_window: Skip) -> None:
        self._skip_window = skip_window
        self.known: dict[bytes, tuple[bytes, ...]] = {}
        self.size = 0

    def read(self, data: bytes, position: int) -> tuple[bytes, ...]:
        """Returns the windows of the header whose number of windows is at `position`.

        Raises IndexError when the data ends within the header.
        """
        windows, end = read_windows(data, position, self._skip_window)
        end = skip_pane(data, end)
        if end > len(data):
            raise CutOff("the data ends within a header")
        self.size = end - position
        if not windows:
            return ()
        if len(self.known) >= self._MOST:
            self.known.clear()
        return self.known.setdefault(data[position:end], windows)


def one_window_each(element: bytes, windows: Sequence[bytes]) -> Sequence[bytes]:
    """Returns a windowed value once in each of its windows, which are `windows`, in their order."""
    if len(windows) == 1:
        return (element,)
    time, rest = element[:TIME_BYTES], element[WINDOWS_AT + sum(map(len, windows)) :]
    return [b"".join((time, _ONE, window, rest)) for window in windows]


def moved(element: bytes, pane_at: int, window: bytes) -> tuple[bytes, bytes, bytes]:
    """Returns a windowed value of one window, in three parts, as it is in this one.

    `pane_at` is the position of the pane as it was.
    """
    return element[:WINDOWS_AT], window, element[pane_at:]


def time_of(element: bytes) -> Timestamp:
    """Returns the event time (ms) of a windowed value."""
    return decode_instant(element)


def earliest_time(elements: Iterable[bytes]) -> Timestamp:
    """Returns the earliest event time (ms) of some windowed values, at least one."""
    return decode_instant(min(element[:TIME_BYTES] for element in elements))


def earliest_time_between(data: bytes, ends: Sequence[int]) -> Timestamp:
    """Returns the earliest event time (ms) of windowed values, of which each ends at one of `ends`
    and the first begins the data.
    """
    begins = chain((0,), ends[:-1])
    return decode_instant(min(data[begin : begin + TIME_BYTES] for begin in begins))


def held_until(time: Timestamp, windows: Iterable[bytes]) -> Timestamp:
    """Returns until when (ms) elements hold watermarks, from their earliest time and their windows.

    That is no later than the end of the first of their windows, at least one, encoded. Nothing
    keeps the time of an element within its window: Beam's Python SDK itself writes what it has
    combined beside a side input at the window's end, a moment after the last one in it. Held by
    that time alone, the watermark would pass the window, and the element come too late for it.
    """
    first = min(windows)
    return min(time, decode_instant(first) - 1 if first else END_OF_GLOBAL_WINDOW)


def decode_times(encoded: Sequence[bytes]) -> list[Timestamp]:
    """Decodes event times, at least one."""
    if encoded.count(encoded[0]) == len(encoded):
        return [decode_instant(encoded[0])] * len(encoded)
    shifted = struct.unpack(f">{len(encoded)}Q", b"".join(encoded))
    return [time - INSTANT_SHIFT for time in shifted]
