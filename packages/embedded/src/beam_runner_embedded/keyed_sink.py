"""Sink for data that is partitioned by key. The sink writes keys, values, windows and timestamps as
columns.
"""

from __future__ import annotations

from operator import length_hint
from typing import Any

from apache_beam.coders import coder_impl, coders
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue
from beam_runner_model.chunks import KeyedChunk
from beam_runner_model.stages import OutputEdge
from beam_runner_model.value_pieces import PIECE_BYTES

from beam_runner_embedded.runs import copy_to_windows
from beam_runner_embedded.sinks import MAX_ROWS, Encoder, HeaderEncoder, Run, Sink

_MIN_MILLIS = MIN_TIMESTAMP.micros // 1000


class KeyedSink(Sink):
    """Sink that writes :class:`KeyedChunk`. An element becomes one row for each of its windows."""

    def __init__(self, *args: Any, edge: OutputEdge) -> None:
        super().__init__(*args)
        coder = self._windowed_coder.wrapped_value_coder
        self._with_timestamps = edge.timestamps
        self._encode_key = None
        self._headers: HeaderEncoder | None = None
        if not edge.keyed_by_element:
            if edge.whole_elements and _is_header_and_pair(self._windowed_coder):
                self._headers = HeaderEncoder(self._windowed_coder)
            self._key_impl = coder.key_coder().get_impl()
            self._encode_key = self._key_impl.encode_to_stream
            coder = coder.value_coder()
            self._encode_second = coder.get_impl().encode_to_stream
        self._whole = edge.whole_elements
        self._encode_value = (
            (self._windowed_coder if self._whole else coder).get_impl().encode_to_stream
        )
        self._encode_window = self._windowed_coder.window_coder.get_impl().encode_nested

    def _encode_items(self) -> Encoder:
        # Most elements share the windows tuple and the timestamp of the previous element, so both
        # are converted only when they change.
        encode_key, encode_value, whole = self._encode_key, self._encode_value, self._whole
        encode_run = self._encode_element_run if self._headers is None else self._encode_pair_run
        windows, window, micros, millis = None, b"", None, 0
        pending: list[WindowedValue | Run] = []
        while True:
            rows = _KeyedRows([] if self._with_timestamps else None)
            keys, values = rows.keys, rows.values
            key_size, value_size = keys.size, values.size
            add_key_end, add_value_end = rows.key_ends.append, rows.value_ends.append
            key_end = 0
            while (item := pending.pop() if pending else (yield)) is not None:
                run = item if type(item) is tuple else None
                element: Any = item if run is None else run[0]
                if element.windows is not windows:
                    if len(element.windows) != 1:
                        pending += _copy_to_windows(element, run)
                        continue
                    encoded = self._encode_window(element.windows[0])
                    if encoded != window:
                        rows.start_window_column(window)
                        window = encoded
                    # Cache only tuples, because a list could be changed in place.
                    windows = element.windows if type(element.windows) is tuple else None
                if element.timestamp_micros != micros:
                    micros = element.timestamp_micros
                    millis = convert_to_millis(micros)
                if run is not None:
                    is_full = encode_run(run, rows)
                    rows.fill_columns(window, millis)
                    if length_hint(run[1]):
                        pending.append(run)
                    if is_full:
                        break
                    continue
                if encode_key is None:
                    encode_value(element.value, values, True)
                else:
                    key, value = element.value
                    encode_key(key, keys, True)
                    encode_value(element if whole else value, values, True)
                    key_end = key_size()
                add_key_end(key_end)
                add_value_end(value_end := value_size())
                if rows.windows is not None:
                    rows.windows.append(window)
                if rows.timestamps is not None:
                    rows.timestamps.append(millis)
                if key_end + value_end >= PIECE_BYTES or len(rows.key_ends) >= MAX_ROWS:
                    break
            if rows.key_ends:
                self.check_size(key_size() + value_size())
                chunk = rows.create_chunk(window)
                # Release the buffers now, because they hold a second copy of a large element.
                del rows, keys, values, key_size, value_size
                self._write_chunk(chunk)
                del chunk

    def _encode_element_run(self, run: Run, rows: _KeyedRows) -> bool:
        """Encodes the keys and values of consecutive elements; stops when the chunk is full. Returns
        True if the chunk is full.
        """
        like, left = run
        encode_key, encode_value = self._encode_key, self._encode_value
        keys, values = rows.keys, rows.values
        key_size, value_size = keys.size, values.size
        add_key_end, add_value_end = rows.key_ends.append, rows.value_ends.append
        room = MAX_ROWS - len(rows.key_ends)
        key_end = 0
        for element in left:
            if encode_key is None:
                encode_value(element, values, True)
            else:
                key, value = element
                encode_key(key, keys, True)
                encode_value(like.with_value(element) if self._whole else value, values, True)
                key_end = key_size()
            add_key_end(key_end)
            add_value_end(value_end := value_size())
            room -= 1
            if key_end + value_end >= PIECE_BYTES or not room:
                return True
        return False

    def _encode_pair_run(self, run: Run, rows: _KeyedRows) -> bool:
        """Encodes the keys and the complete pairs of consecutive elements. Each key is encoded once
        and copied to both columns.
        """
        assert self._headers is not None
        like, left = run
        header = self._headers.encode_header(like)
        encode_key, encode_second = self._key_impl.encode_nested, self._encode_second
        keys, values = rows.keys, rows.values
        write_key, write_value, value_size = keys.write, values.write, values.size
        add_key_end, add_value_end = rows.key_ends.append, rows.value_ends.append
        room = MAX_ROWS - len(rows.key_ends)
        key_end = keys.size()
        for key, value in left:
            encoded = encode_key(key)
            write_key(encoded)
            write_value(header + encoded)
            encode_second(value, values, True)
            add_key_end(key_end := key_end + len(encoded))
            add_value_end(value_end := value_size())
            room -= 1
            if key_end + value_end >= PIECE_BYTES or not room:
                return True
        return False


def _is_header_and_pair(coder: coders.WindowedValueCoder) -> bool:
    """Returns True if the encoding of a windowed value consists of a header, a key and a value, in this order."""
    pair = coder.wrapped_value_coder
    return type(coder) is coders.WindowedValueCoder and type(pair) is coders.TupleCoder


class _KeyedRows:
    """Columns of a keyed chunk that is being built."""

    __slots__ = ("key_ends", "keys", "timestamps", "value_ends", "values", "windows")

    def __init__(self, timestamps: list[int] | None) -> None:
        self.keys = coder_impl.create_OutputStream()
        self.values = coder_impl.create_OutputStream()
        self.key_ends: list[int] = []
        self.value_ends: list[int] = []
        self.windows: list[bytes] | None = None
        self.timestamps = timestamps

    def start_window_column(self, until_now: bytes) -> None:
        """Adds a column of windows, because the rows no longer share one window. Does nothing if no row exists."""
        if self.windows is None and self.key_ends:
            self.windows = [until_now] * len(self.key_ends)

    def fill_columns(self, window: bytes, millis: int) -> None:
        """Adds the window and the timestamp of the rows since the last call to the columns that exist."""
        count = len(self.key_ends)
        if self.windows is not None:
            self.windows += [window] * (count - len(self.windows))
        if self.timestamps is not None:
            self.timestamps += [millis] * (count - len(self.timestamps))

    def create_chunk(self, window: bytes) -> KeyedChunk:
        """Returns the finished chunk. If the rows have no column of windows, ``window`` is the window of all rows."""
        return KeyedChunk(
            key_data=self.keys.get(),
            key_ends=self.key_ends,
            value_data=self.values.get(),
            value_ends=self.value_ends,
            windows=window if self.windows is None else self.windows,
            timestamps=self.timestamps,
        )


def _copy_to_windows(element: WindowedValue, run: Run | None) -> list[WindowedValue | Run]:
    """Returns a copy of the element or run for each of its windows, the last window first."""
    copies = copy_to_windows(element, element.pane_info)[::-1]
    if run is None:
        return copies
    values = list(run[1])
    return [(copy, iter(values)) for copy in copies]


def convert_to_millis(micros: int) -> int:
    """Returns an event time in milliseconds. The time is rounded towards zero, as in Beam's
    windowed value coder.
    """
    if micros >= 0:
        return micros // 1000
    return max(_MIN_MILLIS, -(-micros // 1000))
