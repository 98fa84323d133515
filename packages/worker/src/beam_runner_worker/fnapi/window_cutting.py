"""Cuts a stream of encoded windowed values into chunks of one window each.

An element in several windows becomes one in each, and one in none is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

from beam_runner_worker.fnapi.cutting import (
    COUNT_BYTES,
    TIME_BYTES,
    TIME_SHIFT,
    Cutter,
    EdgeCoder,
)
from beam_runner_worker.fnapi.skipping import skip_pane
from beam_runner_worker.records import ElementChunk, OutputChunk

_ONE = (1).to_bytes(COUNT_BYTES)


class WindowCutter(Cutter):
    """Cuts into chunks of one window, which tell it."""

    def __init__(self, coder: EdgeCoder, *, ends: bool, min_timestamp: bool) -> None:
        super().__init__(coder)
        self._wants_ends = ends
        self._wants_time = min_timestamp
        self._waiting: list[ElementChunk] = []

    def feed(self, data: bytes) -> Iterator[OutputChunk]:
        """The chunks that ``data`` completes; those of a window are in order."""
        for chunk in super().feed(data):
            yield from self._waiting
            self._waiting = []
            yield chunk

    def _cut(self, data: bytes, start: int, stop: int) -> tuple[int, OutputChunk | None]:
        elements: dict[bytes, list[bytes]] = {}
        position, size = start, len(data)
        try:
            while position < stop:
                header = position + TIME_BYTES
                windows = self._header(data, header)
                end = self._coder.element(data, header + self._header_size)
                if end > size:
                    break
                if len(windows) == 1:
                    elements.setdefault(windows[0], []).append(data[position:end])
                else:
                    time, rest = data[position:header], data[self._pane(data, header) : end]
                    for window in windows:
                        own = b"".join((time, _ONE, window, rest))
                        elements.setdefault(window, []).append(own)
                position = end
        except IndexError:
            pass  # The data ends within an element: its begin is kept as the rest.
        if not elements:
            return position, None
        *self._waiting, last = (self._chunk(*of_window) for of_window in elements.items())
        return position, last

    def _pane(self, data: bytes, header: int) -> int:
        """Where the pane begins, given where the window count does."""
        position = header + COUNT_BYTES
        for _ in range(int.from_bytes(data[header:position])):
            position = self._coder.window(data, position)
        assert skip_pane(data, position) == header + self._header_size
        return position

    def _chunk(self, window: bytes, elements: list[bytes]) -> ElementChunk:
        earliest = None
        if self._wants_time:
            first = min(element[:TIME_BYTES] for element in elements)
            earliest = int.from_bytes(first, "big") - TIME_SHIFT
        ends = list(accumulate(map(len, elements))) if self._wants_ends else None
        return ElementChunk(len(elements), b"".join(elements), ends, earliest, window)
