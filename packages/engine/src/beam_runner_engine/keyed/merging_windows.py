"""Open windows of keys whose windows merge, with one record per key.

A new element can merge any windows of its key, so the record holds all of them. When windows merge,
their values stay in their bag cells, and the merged window records the addresses of these cells.
`session_windows` handles session windows, which the engine merges without an SDK.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from beam_runner_model.times import Timestamp
from beam_runner_model.varints import encode_varint
from beam_runner_model.window_coders import encode_window
from beam_runner_model.windows import Window

from beam_runner_engine.keyed.cells import CellId
from beam_runner_engine.keyed.open_windows import OpenWindow
from beam_runner_engine.keyed.ports import WindowMerger
from beam_runner_engine.keyed.records import decode_record, encode_record
from beam_runner_engine.keyed.uncommitted_cells import UncommittedCells
from beam_runner_engine.keyed.window_tables import WindowFactory

_WINDOWS = "~windows"

OnMerge: TypeAlias = Callable[[list[OpenWindow], OpenWindow], None]
"""Callback for a merge: takes the merged windows of a key and the window that absorbs them.

If the list is empty, the window grew without absorbing other windows.
"""

OnGrow: TypeAlias = Callable[[OpenWindow], None]
"""Callback that is called with a window before the window grows."""


class KeyWindows:
    """Open windows of one key whose windows merge, by encoded window.

    Only windows whose trigger is unfinished merge. The other windows are stored until they close,
    so that elements with exactly these windows are dropped.

    Attributes:
        windows: all windows, by encoded window.
        next_address: the number of the next bag cell for values.
        ends: the last timestamps (ms) of the windows in `in_order`.
        in_order: the windows with an unfinished trigger, ordered by end.
        retired: the encoded windows with a finished trigger.
    """

    __slots__ = ("ends", "in_order", "next_address", "retired", "windows")

    def __init__(self) -> None:
        self.windows: dict[bytes, OpenWindow] = {}
        self.next_address = 0
        self.ends: list[Timestamp] = []
        self.in_order: list[OpenWindow] = []
        self.retired: set[bytes] = set()

    def get_window_index(self, window: OpenWindow) -> int:
        """Returns the index of a window among the key's windows in order of their ends."""
        return self.in_order.index(window, bisect_left(self.ends, window.max_timestamp))

    def add_window(self, window: OpenWindow) -> None:
        """Adds a window, either a new one or one that an earlier bundle stored."""
        self.windows[window.encoded] = window
        if window.finished:
            self.retired.add(window.encoded)
            return
        place = bisect_right(self.ends, window.max_timestamp)
        self.ends.insert(place, window.max_timestamp)
        self.in_order.insert(place, window)

    def remove_window(self, window: OpenWindow) -> None:
        """Removes a window that closed or merged into another window."""
        self.exclude_window_from_merging(window)
        self.retired.discard(window.encoded)
        del self.windows[window.encoded]

    def exclude_window_from_merging(self, window: OpenWindow) -> None:
        """Excludes a window from further merges, because its trigger has finished; idempotent."""
        if window.encoded not in self.retired:
            self.retired.add(window.encoded)
            place = self.get_window_index(window)
            del self.ends[place], self.in_order[place]


class MergingWindowTable(ABC):
    """Table of open windows that merge. Subclasses decide which windows merge."""

    def __init__(
        self, cells: UncommittedCells, windows: WindowFactory, merge_into: OnMerge, leave: OnGrow
    ) -> None:
        self._cells = cells
        self._windows = windows
        self._merge_into = merge_into
        self._leave = leave
        self._keys: dict[bytes, KeyWindows] = {}

    @abstractmethod
    def map_to_merged_windows(self, key: bytes, column: Iterable[bytes]) -> dict[bytes, OpenWindow]:
        """Merges windows of a key, and returns the merged window for each encoded window in `column`.

        All windows merge at once, with the same result as merging one window after another.
        """

    def remove_window_before_extension(self, window: OpenWindow) -> None:
        """Removes a window from the table before the window grows; the caller must call
        `add_extended_window` afterwards.
        """
        self._leave(window)
        self._keys[window.key].remove_window(window)

    def add_extended_window(self, window: OpenWindow) -> None:
        """Adds a window to the table again after the window grew."""
        window.closes = self._windows.compute_closing_time(window.window)
        self._remove_equal_excluded_window(window.key, window.encoded)
        self._keys[window.key].add_window(window)

    def exclude_window_from_merging(self, window: OpenWindow) -> None:
        """Excludes a window with a finished trigger from merging."""
        self._keys[window.key].exclude_window_from_merging(window)

    def get_window(self, key: bytes, data: bytes) -> OpenWindow | None:
        """Returns a window of a key, or None if the window is not open."""
        return self._load_windows(key).windows.get(data)

    def close_window(self, window: OpenWindow) -> None:
        """Removes a closed window from the table."""
        self._keys[window.key].remove_window(window)

    def list_open_windows(self) -> Iterator[OpenWindow]:
        """Returns the open windows of the keys that this bundle accessed."""
        return (w for of_key in self._keys.values() for w in of_key.windows.values())

    def save_windows(self) -> None:
        """Writes the windows of the keys that this bundle accessed."""
        for key, of_key in self._keys.items():
            cell = CellId(_WINDOWS, key, b"")
            if of_key.windows:
                kept = [(w.encoded, w.list_persisted_attributes()) for w in of_key.windows.values()]
                self._cells.replace_values(cell, (encode_record((of_key.next_address, kept)),))
            else:
                self._cells.remove_subkey(cell)

    def _load_windows(self, key: bytes) -> KeyWindows:
        of_key = self._keys.get(key)
        if of_key is None:
            of_key = self._keys[key] = KeyWindows()
            kept = self._cells.read_values(CellId(_WINDOWS, key, b""))
            if kept:
                of_key.next_address, windows = decode_record(kept[0])
                for data, of_window in windows:
                    window = self._windows.open_window(key, data)
                    window.restore_persisted_attributes(of_window)
                    of_key.add_window(window)
        return of_key

    def _remove_equal_excluded_window(self, key: bytes, data: bytes) -> None:
        """Removes a retired window (its trigger has finished) if another window becomes equal to
        the retired window.
        """
        of_key = self._keys[key]
        if data in of_key.retired:
            self._leave(of_key.windows[data])
            of_key.remove_window(of_key.windows[data])

    def _open_window(self, of_key: KeyWindows, key: bytes, data: bytes) -> OpenWindow:
        opened = self._windows.open_window(key, data)
        opened.addresses = (encode_varint(of_key.next_address),)
        of_key.next_address += 1
        of_key.add_window(opened)
        return opened


class CustomWindowTable(MergingWindowTable):
    """Table of open windows that a `WindowMerger` merges."""

    def __init__(
        self,
        cells: UncommittedCells,
        windows: WindowFactory,
        merge_into: OnMerge,
        leave: OnGrow,
        merger: WindowMerger,
    ) -> None:
        super().__init__(cells, windows, merge_into, leave)
        self._merger = merger

    def map_to_merged_windows(self, key: bytes, column: Iterable[bytes]) -> dict[bytes, OpenWindow]:
        of_key = self._load_windows(key)
        decoded = {data: self._windows.decode_window_bytes(data) for data in dict.fromkeys(column)}
        known = list(of_key.in_order)
        windows = dict.fromkeys([*[part.window for part in known], *decoded.values()])
        answer = self._merger.merge_windows([list(windows)])[0]
        parts_of: dict[Window, list[OpenWindow]] = {}
        for part in known:
            parts_of.setdefault(answer.get(part.window, part.window), []).append(part)
        for result, parts in parts_of.items():
            if len(parts) > 1 or parts[0].window != result:
                self._merge_windows(of_key, key, parts, result)
        return {
            data: self._find_window(of_key, key, answer.get(window, window))
            for data, window in decoded.items()
        }

    def _find_window(self, of_key: KeyWindows, key: bytes, window: Window) -> OpenWindow:
        data = encode_window(window)
        known = of_key.windows.get(data)
        return known if known is not None else self._open_window(of_key, key, data)

    def _merge_windows(
        self, of_key: KeyWindows, key: bytes, parts: list[OpenWindow], result: Window
    ) -> None:
        others = [part for part in parts if part.window != result]
        for part in others:
            of_key.remove_window(part)
        self._remove_equal_excluded_window(key, encode_window(result))
        self._merge_into(others, self._find_window(of_key, key, result))
