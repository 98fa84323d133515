"""Splitting of a stream of encoded windowed values into chunks of one window each.

An element in several windows is copied into the chunk of each window. An element without a window
is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from beam_runner_model.chunks import ElementChunk, OutputChunk
from beam_runner_model.windowed_values import (
    TIME_BYTES,
    compute_hold_time,
    copy_value_to_each_window,
    find_earliest_event_time,
)

from beam_runner_worker.fnapi.chunking import Chunker, EdgeCoder


class WindowChunker(Chunker):
    """Splitter of a stream into chunks that each have one known window."""

    def __init__(self, coder: EdgeCoder, *, min_timestamp: bool) -> None:
        super().__init__(coder)
        self._wants_time = min_timestamp
        self._waiting: list[ElementChunk] = []

    def split_chunks(self, data: bytes) -> Iterator[OutputChunk]:
        """Yields the chunks that ``data`` completes; the elements of each window stay in order."""
        for chunk in super().split_chunks(data):
            yield from self._waiting
            self._waiting = []
            yield chunk

    def _split_elements(self, data: bytes, start: int, stop: int) -> tuple[int, OutputChunk | None]:
        elements: dict[bytes, list[bytes]] = {}
        position, size, headers, skip = start, len(data), self._headers, self._coder.element
        try:
            while position < stop:
                header = position + TIME_BYTES
                known = headers.known.get(data[header : header + headers.size])
                windows = headers.read(data, header) if known is None else known
                end = skip(data, header + headers.size)
                if end > size:
                    break
                if len(windows) == 1:
                    elements.setdefault(windows[0], []).append(data[position:end])
                else:
                    each = copy_value_to_each_window(data[position:end], windows)
                    for window, element in zip(windows, each, strict=True):
                        elements.setdefault(window, []).append(element)
                position = end
        except IndexError:
            pass  # The data ends within an element. Its beginning is buffered until more data arrives.
        if not elements:
            return position, None
        *self._waiting, last = (self._create_chunk(*of_window) for of_window in elements.items())
        return position, last

    def _create_chunk(self, window: bytes, elements: list[bytes]) -> ElementChunk:
        time = (
            compute_hold_time(find_earliest_event_time(elements), (window,))
            if self._wants_time
            else None
        )
        ends = list(accumulate(map(len, elements)))
        return ElementChunk(len(elements), b"".join(elements), ends, time, window)
