"""Writes elements window by window: for a host that must know which windows elements are in."""

from __future__ import annotations

from collections.abc import Generator
from itertools import accumulate
from typing import Any

from apache_beam.utils.windowed_value import WindowedValue
from beam_runner_engine.values.windowed_values import one_window_each

from beam_runner_worker.embedded.sinks import MAX_BYTES, MAX_ROWS, Sink, earliest_millis
from beam_runner_worker.records import ElementChunk


class WindowSink(Sink):
    """Writes :class:`ElementChunk` of one window each."""

    takes_runs = False

    def __init__(self, *args: Any, min_timestamp: bool) -> None:
        super().__init__(*args)
        self._with_min_timestamp = min_timestamp
        self._encode = self._windowed_coder.get_impl().encode_nested
        self._encode_window = self._windowed_coder.window_coder.get_impl().encode_nested

    def _encoder(self) -> Generator[None, WindowedValue | None, None]:
        while True:
            windows: dict[bytes, _OfOneWindow] = {}
            size = rows = 0
            while (element := (yield)) is not None:
                encoded = [self._encode_window(window) for window in element.windows]
                each = one_window_each(self._encode(element), encoded)
                for window, one in zip(encoded, each, strict=True):
                    if window not in windows:
                        windows[window] = _OfOneWindow()
                    windows[window].add(one, element.timestamp_micros)
                    size += len(one)
                rows += len(each)
                if size >= MAX_BYTES or rows >= MAX_ROWS:
                    break
            for window, elements in windows.items():
                self.check_size(elements.size)
                self._write(elements.chunk(window, self._with_min_timestamp))


class _OfOneWindow:
    """The elements of one window, until there are enough of all."""

    def __init__(self) -> None:
        self.size = 0
        self._elements: list[bytes] = []
        self._times: list[int] = []

    def add(self, element: bytes, micros: int) -> None:
        """Takes an encoded element with its time."""
        self.size += len(element)
        self._elements.append(element)
        self._times.append(micros)

    def chunk(self, window: bytes, timed: bool) -> ElementChunk:
        """All of them."""
        ends = list(accumulate(map(len, self._elements)))
        time = earliest_millis(min(self._times)) if timed else None
        return ElementChunk(len(ends), b"".join(self._elements), ends, time, window)
