"""Sink that writes a separate chunk for each window, because the runner must know the window of the data."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from apache_beam.coders import coder_impl
from apache_beam.utils.timestamp import MAX_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue
from beam_runner_model.chunks import ElementChunk
from beam_runner_model.value_pieces import PIECE_BYTES
from beam_runner_model.windowed_values import compute_hold_time, copy_value_to_each_window

from beam_runner_embedded.sinks import MAX_ROWS, Sink, round_down_to_millis


class WindowSink(Sink):
    """Sink that writes :class:`ElementChunk`, each with the elements of one window."""

    takes_runs = False

    def __init__(self, *args: Any, min_timestamp: bool) -> None:
        super().__init__(*args)
        self._with_min_timestamp = min_timestamp
        self._encode_window = self._windowed_coder.window_coder.get_impl().encode_nested

    def _encode_items(self) -> Generator[None, WindowedValue | None, None]:
        impl = self._windowed_coder.get_impl()
        encode, encode_whole = impl.encode_to_stream, impl.encode_nested
        while True:
            windows: dict[bytes, _WindowBuffer] = {}
            size = rows = 0
            # Most elements share the windows tuple of the previous element.
            last, encoded = None, [b""]
            while (element := (yield)) is not None:
                if element.windows is not last:
                    # Cache only tuples, because a list could be changed in place.
                    last = element.windows if type(element.windows) is tuple else None
                    encoded = [self._encode_window(window) for window in element.windows]
                if len(encoded) == 1:
                    mine = windows.get(encoded[0]) or windows.setdefault(
                        encoded[0], _WindowBuffer()
                    )
                    begin = mine.size()
                    encode(element, mine.stream, True)
                    size += mine.record_element(element.timestamp_micros) - begin
                else:
                    each = copy_value_to_each_window(encode_whole(element), encoded)
                    for window, one in zip(encoded, each, strict=True):
                        mine = windows.get(window) or windows.setdefault(window, _WindowBuffer())
                        mine.stream.write(one)
                        mine.record_element(element.timestamp_micros)
                        size += len(one)
                rows += len(encoded)
                if size >= PIECE_BYTES or rows >= MAX_ROWS:
                    break
            for window, elements in windows.items():
                self.check_size(elements.size())
                self._write_chunk(elements.create_chunk(window, timed=self._with_min_timestamp))


class _WindowBuffer:
    """Buffer with the encoded elements of one window. All buffers are written when their total size
    reaches `PIECE_BYTES`.
    """

    __slots__ = ("_earliest", "_ends", "size", "stream")

    def __init__(self) -> None:
        self.stream = coder_impl.create_OutputStream()
        self.size: Callable[[], int] = self.stream.size
        self._ends: list[int] = []
        self._earliest = MAX_TIMESTAMP.micros

    def record_element(self, micros: int) -> int:
        """Records the end position and the timestamp of the element that was just written to the
        stream; returns the end position.
        """
        end = self.size()
        self._ends.append(end)
        if micros < self._earliest:
            self._earliest = micros
        return end

    def create_chunk(self, window: bytes, *, timed: bool) -> ElementChunk:
        """Returns a chunk with all elements of the buffer."""
        time = compute_hold_time(round_down_to_millis(self._earliest), (window,)) if timed else None
        return ElementChunk(len(self._ends), self.stream.get(), self._ends, time, window)
