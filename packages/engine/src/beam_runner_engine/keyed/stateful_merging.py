"""Merging windows in stateful processing: state, timers and buffered elements move to the merged
window.

Beam's Java SDK rejects user state in merging windows. The Python SDK allows it.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.window_coders import decode_window, encode_window
from beam_runner_model.windows import Window

from beam_runner_engine.keyed.cells import CellId
from beam_runner_engine.keyed.ports import WindowMerger
from beam_runner_engine.keyed.records import decode_record, encode_record
from beam_runner_engine.keyed.sorted_input import SortedInputBuffer
from beam_runner_engine.keyed.state import State, ValueState, move_state_to_merged_window
from beam_runner_engine.keyed.timers import TimerTable
from beam_runner_engine.keyed.uncommitted_cells import UncommittedCells

_OPEN = "~open windows"


class StatefulWindowTable:
    """Open windows of each key. A new window can merge with existing windows."""

    def __init__(
        self,
        strategy: WindowingStrategy,
        states: Mapping[str, type[State]],
        cells: UncommittedCells,
        merger: WindowMerger,
        timers: TimerTable,
        sorted_input: SortedInputBuffer,
    ) -> None:
        self._coder = strategy.window_coder
        self._states = states
        self._cells = cells
        self._merger = merger
        self._timers = timers
        self._sorted = sorted_input
        self._keys: dict[bytes, dict[Window, None]] = {}
        self._merged: dict[bytes, dict[Window, Window]] = {}

    def open_window(self, key: bytes, data: bytes) -> list[bytes]:
        """Opens an encoded window of a key, and merges the key's windows.

        Returns:
            The encoded windows that merged into another window.
        """
        open_windows = self._load_windows(key)
        window = decode_window(self._coder, data)
        if window in open_windows:
            return []
        everything = [*open_windows, window]
        answer = self._merger.merge_windows([everything])[0]
        gone: list[bytes] = []
        for source in everything:
            into = answer.get(source, source)
            open_windows[into] = None
            if into != source:
                merged = self._merged.setdefault(key, {})
                merged[source] = into
                # A custom WindowFn can return a window that an earlier merge removed.
                merged.pop(into, None)
                if open_windows.pop(source, 0) is None:
                    gone.append(encode_window(source))
                self._move_window_content(key, encode_window(source), encode_window(into))
        return gone

    def get_current_window(self, key: bytes, data: bytes) -> bytes:
        """Returns the encoded window that absorbed a window of this bundle, or the window itself."""
        window = decode_window(self._coder, data)
        merged = self._merged.get(key, {})
        while window in merged:
            window = merged[window]
        return encode_window(window)

    def close_window(self, key: bytes, data: bytes) -> None:
        """Removes an encoded window that has expired."""
        self._load_windows(key).pop(decode_window(self._coder, data), None)

    def save_windows(self) -> None:
        """Writes the open windows of the keys that this bundle accessed."""
        for key, windows in self._keys.items():
            cell = CellId(_OPEN, key, b"")
            if windows:
                record = encode_record([encode_window(window) for window in windows])
                self._cells.replace_values(cell, (record,))
            else:
                self._cells.remove_subkey(cell)

    def _load_windows(self, key: bytes) -> dict[Window, None]:
        windows = self._keys.get(key)
        if windows is None:
            stored = self._cells.read_values(CellId(_OPEN, key, b""))
            datas = decode_record(stored[0]) if stored else ()
            windows = self._keys[key] = {decode_window(self._coder, data): None for data in datas}
        return windows

    def _move_window_content(self, key: bytes, source: bytes, into: bytes) -> None:
        for name, kind in self._states.items():
            move_state_to_merged_window(
                self._cells, name, key, [source], into, single=kind is ValueState
            )
        for timer in self._timers.list_window_timers(key, source):
            self._timers.clear_timer(key, source, timer.family, timer.tag)
            other = self._timers.get_timer(key, into, timer.family, timer.tag)
            if other is None or timer.fire_time < other.fire_time:
                self._timers.set_timer(attrs.evolve(timer, window=into))
        self._sorted.move_to_merged_window(key, source, into)
