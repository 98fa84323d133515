"""Writes elements window by window: for a host that must know which windows elements are in."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from apache_beam.coders import coder_impl
from apache_beam.utils import windowed_value
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from beam_runner_worker.embedded.sinks import MAX_BYTES, MAX_ROWS, Sink
from beam_runner_worker.records import ElementChunk

_MIN_MILLIS = MIN_TIMESTAMP.micros // 1000


class WindowSink(Sink):
    """Writes :class:`ElementChunk` of one window each, with the end of each element if wanted."""

    takes_runs = False

    def __init__(self, *args: Any, ends: bool, min_timestamp: bool) -> None:
        super().__init__(*args)
        self._with_ends = ends
        self._with_min_timestamp = min_timestamp
        self._encode_window = self._windowed_coder.window_coder.get_impl().encode_nested

    def _encoder(self) -> Generator[None, WindowedValue | None, None]:
        impl = self._windowed_coder.get_impl()
        while True:
            windows: dict[bytes, _OfOneWindow] = {}
            size = rows = 0
            while (element := (yield)) is not None:
                for one in _one_window_each(element):
                    window = self._encode_window(one.windows[0])
                    if window not in windows:
                        windows[window] = _OfOneWindow(impl)
                    size += windows[window].add(one)
                    rows += 1
                if size >= MAX_BYTES or rows >= MAX_ROWS:
                    break
            for window, elements in windows.items():
                chunk = elements.chunk(window, self._with_ends, self._with_min_timestamp)
                self._write(chunk)


class _OfOneWindow:
    """The elements of one window, until there are enough of all."""

    def __init__(self, impl: coder_impl.CoderImpl) -> None:
        self._encode = impl.encode_to_stream
        self._stream = coder_impl.create_OutputStream()
        self._ends: list[int] = []
        self._earliest = MAX_TIMESTAMP.micros

    def add(self, element: WindowedValue) -> int:
        """Takes an element; gives how many bytes it takes."""
        before = self._stream.size()
        self._encode(element, self._stream, True)
        end: int = self._stream.size()
        self._ends.append(end)
        self._earliest = min(self._earliest, element.timestamp_micros)
        return end - before

    def chunk(self, window: bytes, ends: bool, timed: bool) -> ElementChunk:
        """All of them."""
        # Rounded down, so that no element is earlier.
        earliest = max(self._earliest // 1000, _MIN_MILLIS)
        return ElementChunk(
            len(self._ends),
            self._stream.get(),
            self._ends if ends else None,
            min_timestamp=earliest if timed else None,
            window=window,
        )


def _one_window_each(element: WindowedValue) -> tuple[WindowedValue, ...]:
    if len(element.windows) == 1:
        return (element,)
    return tuple(
        windowed_value.create(element.value, element.timestamp_micros, (window,), element.pane_info)
        for window in element.windows
    )
