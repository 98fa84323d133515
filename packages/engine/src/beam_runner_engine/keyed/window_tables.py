"""Open windows of a shard's keys, loaded on access and saved after changes.

Windows that don't merge have one record per key and window. See `merging_windows` for merging
windows.
"""

from __future__ import annotations

from collections.abc import Iterator

from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.times import Timestamp, get_earliest_watermark_after
from beam_runner_model.window_coders import decode_window
from beam_runner_model.windows import Window

from beam_runner_engine.keyed.cells import CellId
from beam_runner_engine.keyed.open_windows import OpenWindow
from beam_runner_engine.keyed.records import decode_record, encode_record
from beam_runner_engine.keyed.triggers import State
from beam_runner_engine.keyed.uncommitted_cells import UncommittedCells

_WINDOW = "~window"


class WindowFactory:
    """Factory of windows from encoded windows, with a cache of decoded windows."""

    def __init__(self, strategy: WindowingStrategy, initial: State) -> None:
        self._strategy = strategy
        self._initial = initial
        self._decoded: dict[bytes, tuple[Window, Timestamp]] = {}

    def decode_window_bytes(self, data: bytes) -> Window:
        """Decodes a window, or returns the cached result."""
        return self._decode_window_with_cache(data)[0]

    def open_window(self, key: bytes, data: bytes) -> OpenWindow:
        """Returns a new open window of a key, which has no elements yet."""
        window, closes = self._decode_window_with_cache(data)
        return OpenWindow(key, window, data, closes, self._initial)

    def compute_closing_time(self, window: Window) -> Timestamp:
        """Returns the smallest watermark (ms) at which a window is expired."""
        return get_earliest_watermark_after(self._strategy.get_expiry_time(window))

    def _decode_window_with_cache(self, data: bytes) -> tuple[Window, Timestamp]:
        found = self._decoded.get(data)
        if found is None:
            window = decode_window(self._strategy.window_coder, data)
            found = self._decoded[data] = (window, self.compute_closing_time(window))
        return found


class NonMergingWindowTable:
    """Table of open windows that don't merge, with one record per key and window."""

    def __init__(self, cells: UncommittedCells, windows: WindowFactory) -> None:
        self._cells = cells
        self._windows = windows
        self._open: dict[tuple[bytes, bytes], OpenWindow] = {}
        self._stored: set[tuple[bytes, bytes]] = set()
        self._closed: set[tuple[bytes, bytes]] = set()

    def open_window(self, key: bytes, data: bytes) -> OpenWindow:
        """Returns a key's window, and opens the window if necessary."""
        window = self.get_window(key, data)
        if window is None:
            window = self._open[key, data] = self._windows.open_window(key, data)
        return window

    def get_window(self, key: bytes, data: bytes) -> OpenWindow | None:
        """Returns a key's window, or None if the window is not open."""
        place = (key, data)
        window = self._open.get(place)
        if window is None and place not in self._closed:
            kept = self._cells.read_values(CellId(_WINDOW, key, data))
            if kept:
                window = self._open[place] = self._windows.open_window(key, data)
                window.restore_persisted_attributes(decode_record(kept[0]))
                self._stored.add(place)
        return window

    def close_window(self, window: OpenWindow) -> None:
        """Removes a closed window from the table."""
        self._open.pop((window.key, window.encoded))
        self._closed.add((window.key, window.encoded))

    def list_open_windows(self) -> Iterator[OpenWindow]:
        """Returns the open windows that this bundle accessed."""
        return iter(self._open.values())

    def save_windows(self) -> None:
        """Writes the windows that this bundle accessed."""
        for key, data in sorted(self._stored - self._open.keys()):
            self._cells.remove_subkey(CellId(_WINDOW, key, data))
        for (key, data), window in self._open.items():
            self._cells.replace_values(
                CellId(_WINDOW, key, data), (encode_record(window.list_persisted_attributes()),)
            )
