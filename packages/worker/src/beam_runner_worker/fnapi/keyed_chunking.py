"""Splitting of encoded windowed values into columns: keys, values, windows and event times.

The loops avoid function calls for speed, as in ``chunking``.
"""

from __future__ import annotations

from itertools import accumulate

from beam_runner_model.chunks import KeyedChunk, OutputChunk
from beam_runner_model.stages import OutputEdge, OutputKind
from beam_runner_model.windowed_values import (
    TIME_BYTES,
    HeaderReader,
    copy_value_to_each_window,
    decode_event_times,
)

from beam_runner_worker.fnapi.chunking import Chunker, EdgeCoder, ElementChunker
from beam_runner_worker.fnapi.skipping import UnknownCoder
from beam_runner_worker.fnapi.window_chunking import WindowChunker


def create_chunker(edge: OutputEdge, coder: EdgeCoder) -> Chunker:
    """Returns a splitter of an output's data into the kind of chunks that the runner requires.

    Raises:
        UnknownCoder: The runner requires keys and values, but the elements of the output aren't
            key-value pairs.
    """
    if edge.kind is not OutputKind.KEYED:
        chunker = WindowChunker if edge.windows else ElementChunker
        return chunker(coder, min_timestamp=edge.min_timestamp)
    if not edge.keyed_by_element and coder.key is None:
        raise UnknownCoder(f"the elements of the edge {edge.transform_id!r} have no keys")
    return KeyedChunker(coder, edge)


class KeyedChunker(Chunker):
    """Splitter into columns of keys, values, windows and event times. An element becomes one row for
    each of its windows.
    """

    def __init__(self, coder: EdgeCoder, edge: OutputEdge) -> None:
        super().__init__(coder)
        self._edge = edge

    def _split_elements(self, data: bytes, start: int, stop: int) -> tuple[int, OutputChunk | None]:
        by_element = self._edge.keyed_by_element
        rows = _KeyedColumns(whole=self._edge.whole_elements and not by_element)
        position = start
        skip_key = None if by_element else self._coder.key
        skip_value = self._coder.element if by_element else self._coder.value
        assert skip_value is not None
        headers, size, whole = self._headers, len(data), rows.whole
        try:
            while position < stop:
                header = position + TIME_BYTES
                windows = _read_windows(headers, data, header)
                begin = header + headers.size
                middle = begin if skip_key is None else skip_key(data, begin)
                end = skip_value(data, middle)
                if end > size:
                    break
                rows.keys.append(data[begin:middle])
                rows.values.append(data[position if whole else middle : end])
                rows.times.append(data[position:header])
                rows.windows.append(windows)
                position = end
        except IndexError:
            pass  # The data ends within an element. Its beginning is buffered until more data arrives.
        return position, rows.create_chunk(self._edge.timestamps)


def _read_windows(headers: HeaderReader, data: bytes, header: int) -> tuple[bytes, ...]:
    windows = headers.known.get(data[header : header + headers.size])
    return headers.read(data, header) if windows is None else windows


class _KeyedColumns:
    """Columns of a chunk that is being built. The columns have one entry for each element, also for
    an element in several windows.

    Args:
        whole: whether values are complete windowed values.
    """

    __slots__ = ("keys", "times", "values", "whole", "windows")

    def __init__(self, *, whole: bool) -> None:
        self.whole = whole
        self.keys: list[bytes] = []
        self.values: list[bytes] = []
        self.times: list[bytes] = []
        self.windows: list[tuple[bytes, ...]] = []

    def create_chunk(self, timestamps: bool) -> KeyedChunk | None:
        """Returns a chunk with one row for each window of each element; None if the columns are
        empty.
        """
        if not self.windows:
            return None
        first = self.windows[0]
        windows: bytes | list[bytes]
        if len(first) == 1 and self.windows.count(first) == len(self.windows):
            windows = first[0]
        else:
            if set(map(len, self.windows)) != {1}:
                self._repeat_elements_for_windows()
                if not self.windows:
                    return None
            windows = [only for (only,) in self.windows]
        return KeyedChunk(
            key_data=b"".join(self.keys),
            key_ends=list(accumulate(map(len, self.keys))),
            value_data=b"".join(self.values),
            value_ends=list(accumulate(map(len, self.values))),
            windows=windows,
            timestamps=decode_event_times(self.times) if timestamps else None,
        )

    def _repeat_elements_for_windows(self) -> None:
        counts = list(map(len, self.windows))
        if self.whole:
            pairs = zip(self.values, self.windows, strict=True)
            values = [
                one for value, windows in pairs for one in copy_value_to_each_window(value, windows)
            ]
        else:
            values = _repeat_items(self.values, counts)
        self.keys, self.values = _repeat_items(self.keys, counts), values
        self.times = _repeat_items(self.times, counts)
        self.windows = [(window,) for windows in self.windows for window in windows]


def _repeat_items(column: list[bytes], counts: list[int]) -> list[bytes]:
    return [each for each, count in zip(column, counts, strict=True) for _ in range(count)]
