"""Cuts a stream of encoded windowed values into columns: keys, values, windows and event times.

The loops are written out for speed, as in ``cutting``.
"""

from __future__ import annotations

import struct
from itertools import accumulate

from beam_runner_worker.fnapi.cutting import (
    COUNT_BYTES,
    TIME_BYTES,
    TIME_SHIFT,
    Cutter,
    EdgeCoder,
    ElementCutter,
)
from beam_runner_worker.fnapi.skipping import UnknownCoder, skip_delimited
from beam_runner_worker.fnapi.window_cutting import WindowCutter
from beam_runner_worker.records import KeyedChunk, OutputChunk, OutputEdge, OutputKind

_ONE_WINDOW = (1).to_bytes(COUNT_BYTES)


def cutter_for(edge: OutputEdge, coder: EdgeCoder) -> Cutter:
    """The cutter that makes of an edge's data the chunks that the host asked for.

    Raises:
        UnknownCoder: the edge shall be cut into keys and values and has elements of another kind.
    """
    if edge.kind is not OutputKind.KEYED:
        ends = edge.kind is OutputKind.CUT_ELEMENTS
        if edge.windows:
            return WindowCutter(coder, ends=ends, min_timestamp=edge.min_timestamp)
        return ElementCutter(coder, ends=ends, min_timestamp=edge.min_timestamp)
    if edge.keyed_by_element:
        return KeyedCutter(coder, whole=True, timestamps=edge.timestamps)
    if coder.key is None:
        raise UnknownCoder(f"the elements of the edge {edge.transform_id!r} have no keys")
    if edge.whole_elements:
        return WholeKeyedCutter(coder, whole=False, timestamps=edge.timestamps)
    return KeyedCutter(coder, whole=False, timestamps=edge.timestamps)


class KeyedCutter(Cutter):
    """Cuts into columns of keys, values, windows and event times; a row for every window."""

    def __init__(self, coder: EdgeCoder, *, whole: bool, timestamps: bool) -> None:
        super().__init__(coder)
        self._whole = whole
        self._timestamps = timestamps

    def _cut(self, data: bytes, start: int, stop: int) -> tuple[int, OutputChunk | None]:
        rows = _Rows()
        if self._whole:
            position = self._cut_whole(data, start, stop, rows)
        elif self._coder.delimited:
            position = self._cut_delimited(data, start, stop, rows)
        else:
            position = self._cut_pairs(data, start, stop, rows)
        return position, rows.chunk(self._timestamps)

    def _cut_delimited(self, data: bytes, position: int, stop: int, rows: _Rows) -> int:
        key, value, time, window = (
            rows.keys.append,
            rows.values.append,
            rows.times.append,
            rows.windows.append,
        )
        known, header_size, size = self._known, self._header_size, len(data)
        try:
            while position < stop:
                header = position + 8
                begin = header + header_size
                windows = known.get(data[header:begin])
                if windows is None:
                    windows = self._header(data, header)
                    header_size = self._header_size
                    begin = header + header_size
                length = data[begin]
                middle = begin + 1 + length if length < 0x80 else skip_delimited(data, begin)
                length = data[middle]
                end = middle + 1 + length if length < 0x80 else skip_delimited(data, middle)
                if end > size:
                    break
                key(data[begin:middle])
                value(data[middle:end])
                time(data[position:header])
                window(windows)
                position = end
        except IndexError:
            pass  # The data ends within an element: its begin is kept as the rest.
        return position

    def _cut_pairs(self, data: bytes, position: int, stop: int, rows: _Rows) -> int:
        skip_key, skip_value = self._coder.key, self._coder.value
        assert skip_key is not None
        assert skip_value is not None
        size = len(data)
        try:
            while position < stop:
                header = position + TIME_BYTES
                windows = self._windows(data, header)
                begin = header + self._header_size
                middle = skip_key(data, begin)
                end = skip_value(data, middle)
                if end > size:
                    break
                rows.keys.append(data[begin:middle])
                rows.values.append(data[middle:end])
                rows.times.append(data[position:header])
                rows.windows.append(windows)
                position = end
        except IndexError:
            pass  # The data ends within an element: its begin is kept as the rest.
        return position

    def _cut_whole(self, data: bytes, position: int, stop: int, rows: _Rows) -> int:
        skip = self._coder.element
        size = len(data)
        try:
            while position < stop:
                header = position + TIME_BYTES
                windows = self._windows(data, header)
                begin = header + self._header_size
                end = skip(data, begin)
                if end > size:
                    break
                rows.values.append(data[begin:end])
                rows.times.append(data[position:header])
                rows.windows.append(windows)
                position = end
        except IndexError:
            pass  # The data ends within an element: its begin is kept as the rest.
        rows.keys.extend([b""] * len(rows.values))
        return position

    def _windows(self, data: bytes, header: int) -> tuple[bytes, ...]:
        windows = self._known.get(data[header : header + self._header_size])
        return self._header(data, header) if windows is None else windows


class WholeKeyedCutter(KeyedCutter):
    """Cuts into columns with the whole windowed element as the value, in its row's one window."""

    def _cut_delimited(self, data: bytes, position: int, stop: int, rows: _Rows) -> int:
        return self._cut_pairs(data, position, stop, rows)

    def _cut_pairs(self, data: bytes, position: int, stop: int, rows: _Rows) -> int:
        skip_key, skip_value = self._coder.key, self._coder.value
        assert skip_key is not None
        assert skip_value is not None
        size = len(data)
        try:
            while position < stop:
                header = position + TIME_BYTES
                windows = self._windows(data, header)
                begin = header + self._header_size
                middle = skip_key(data, begin)
                end = skip_value(data, middle)
                if end > size:
                    break
                for window in windows:
                    rows.keys.append(data[begin:middle])
                    rows.times.append(data[position:header])
                    rows.windows.append((window,))
                if len(windows) == 1:
                    rows.values.append(data[position:end])
                else:
                    rest = data[header + COUNT_BYTES + sum(map(len, windows)) : end]
                    for window in windows:
                        rows.values.append(
                            b"".join((data[position:header], _ONE_WINDOW, window, rest))
                        )
                position = end
        except IndexError:
            pass  # The data ends within an element: its begin is kept as the rest.
        return position


class _Rows:
    """Columns while they grow: one entry for every element, however many windows it is in."""

    __slots__ = ("keys", "times", "values", "windows")

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.values: list[bytes] = []
        self.times: list[bytes] = []
        self.windows: list[tuple[bytes, ...]] = []

    def chunk(self, timestamps: bool) -> KeyedChunk | None:
        """The rows so far, an element once for each of its windows; None if there are none."""
        if not self.windows:
            return None
        first = self.windows[0]
        windows: bytes | list[bytes]
        if len(first) == 1 and self.windows.count(first) == len(self.windows):
            windows = first[0]
        else:
            if set(map(len, self.windows)) != {1}:
                self._repeat_for_windows()
                if not self.windows:
                    return None
            windows = [only for (only,) in self.windows]
        return KeyedChunk(
            key_data=b"".join(self.keys),
            key_ends=list(accumulate(map(len, self.keys))),
            value_data=b"".join(self.values),
            value_ends=list(accumulate(map(len, self.values))),
            windows=windows,
            timestamps=_decode_times(self.times) if timestamps else None,
        )

    def _repeat_for_windows(self) -> None:
        counts = list(map(len, self.windows))
        for name in ("keys", "values", "times"):
            column = getattr(self, name)
            setattr(self, name, [x for x, n in zip(column, counts, strict=True) for _ in range(n)])
        self.windows = [(window,) for windows in self.windows for window in windows]


def _decode_times(encoded: list[bytes]) -> list[int]:
    if encoded.count(encoded[0]) == len(encoded):
        return [int.from_bytes(encoded[0], "big") - TIME_SHIFT] * len(encoded)
    times = struct.unpack(f">{len(encoded)}Q", b"".join(encoded))
    return [time - TIME_SHIFT for time in times]
