"""The open windows of a shard's keys, loaded as they are needed and saved as they changed.

Windows that merge are one table per key, since a new element may merge any of them; their values
stay in the bags they are in, and a window knows the addresses of its bags. Others are by
themselves.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Protocol, TypeAlias

from beam_runner_engine.keyed.cells import CellId
from beam_runner_engine.keyed.open_windows import OpenWindow
from beam_runner_engine.keyed.ports import WindowMerger
from beam_runner_engine.keyed.records import read_record, write_record
from beam_runner_engine.keyed.tentative import TentativeCells
from beam_runner_engine.values.strategy import WindowingStrategy
from beam_runner_engine.values.times import MIN_TIMESTAMP, Timestamp
from beam_runner_engine.values.varints import encode_varint
from beam_runner_engine.values.window_coders import decode_window, encode_window
from beam_runner_engine.values.window_fns import Sessions
from beam_runner_engine.values.windows import IntervalWindow, Window

_WINDOW = "~window"
_WINDOWS = "~windows"

MergeInto: TypeAlias = Callable[[list[OpenWindow], OpenWindow], None]
"""Called with the windows of a key that are merged, and the window they become part of."""


class WindowTable(Protocol):
    """Finds open windows of keys; windows are given and kept encoded."""

    def enter(self, key: bytes, data: bytes) -> OpenWindow:
        """Returns the window of a key that an element in window `data` belongs to, made if new."""

    def get(self, key: bytes, data: bytes) -> OpenWindow | None:
        """Returns a window of a key if it is open."""

    def close(self, window: OpenWindow) -> None:
        """Forgets a window."""

    def windows(self) -> Iterator[OpenWindow]:
        """Returns the open windows that were looked at."""

    def save(self) -> None:
        """Writes the windows that were looked at."""


class _Windows:
    """Makes windows from their bytes, decoding each only once."""

    def __init__(self, strategy: WindowingStrategy, initial: Any) -> None:
        self._strategy = strategy
        self._initial = initial
        self._decoded: dict[bytes, tuple[Window, int]] = {}

    def decode(self, data: bytes) -> tuple[Window, int]:
        found = self._decoded.get(data)
        if found is None:
            window = decode_window(self._strategy.window_coder, data)
            found = self._decoded[data] = (window, self._strategy.expiry(window) + 1)
        return found

    def open(self, key: bytes, data: bytes) -> OpenWindow:
        window, closes = self.decode(data)
        return OpenWindow(key, window, data, closes, self._initial)


class SeparateWindows:
    """The table for windows that don't merge: a record per key and window."""

    def __init__(self, cells: TentativeCells, strategy: WindowingStrategy, initial: Any) -> None:
        self._cells = cells
        self._windows = _Windows(strategy, initial)
        self._open: dict[tuple[bytes, bytes], OpenWindow] = {}
        self._stored: set[tuple[bytes, bytes]] = set()
        self._closed: set[tuple[bytes, bytes]] = set()

    def enter(self, key: bytes, data: bytes) -> OpenWindow:
        window = self.get(key, data)
        if window is None:
            window = self._open[key, data] = self._windows.open(key, data)
        return window

    def get(self, key: bytes, data: bytes) -> OpenWindow | None:
        place = (key, data)
        window = self._open.get(place)
        if window is None and place not in self._closed:
            kept = self._cells.read(CellId(_WINDOW, key, data))
            if kept:
                window = self._open[place] = self._windows.open(key, data)
                window.restore(read_record(kept[0]))
                self._stored.add(place)
        return window

    def close(self, window: OpenWindow) -> None:
        self._open.pop((window.key, window.encoded))
        self._closed.add((window.key, window.encoded))

    def windows(self) -> Iterator[OpenWindow]:
        return iter(self._open.values())

    def save(self) -> None:
        for key, data in sorted(self._stored - self._open.keys()):
            self._cells.remove(CellId(_WINDOW, key, data))
        for (key, data), window in self._open.items():
            self._cells.replace(CellId(_WINDOW, key, data), (write_record(window.kept()),))


class _KeyWindows:
    """The open windows of one key, and the number the next bag of values gets.

    Open sessions don't overlap, so they are also kept in order: `ends` are theirs, ascending.
    """

    __slots__ = ("_ends", "_in_order", "_sessions", "next_address", "windows")

    def __init__(self, sessions: bool) -> None:
        self.windows: dict[Window, OpenWindow] = {}
        self.next_address = 0
        self._sessions = sessions
        self._ends: list[Timestamp] = []
        self._in_order: list[OpenWindow] = []

    def add(self, window: OpenWindow) -> None:
        self.windows[window.window] = window
        if self._sessions:
            place = bisect_right(self._ends, window.max_timestamp)
            self._ends.insert(place, window.max_timestamp)
            self._in_order.insert(place, window)

    def remove(self, window: OpenWindow) -> None:
        del self.windows[window.window]
        if self._sessions:
            place = self._in_order.index(window, bisect_left(self._ends, window.max_timestamp))
            del self._ends[place], self._in_order[place]

    def near(self, first: Timestamp, last: Timestamp) -> list[OpenWindow]:
        """Returns the windows that may merge with windows that are in these times (ms): sessions
        that overlap them, of other windows all.
        """
        if not self._sessions:
            return list(self.windows.values())
        begin = end = bisect_left(self._ends, first)
        while end < len(self._ends) and start_of(self._in_order[end].window) <= last:
            end += 1
        return self._in_order[begin:end]


class MergingWindows:
    """The table for windows that merge: a record per key."""

    def __init__(
        self,
        cells: TentativeCells,
        strategy: WindowingStrategy,
        initial: Any,
        merger: WindowMerger,
        merge_into: MergeInto,
    ) -> None:
        self._cells = cells
        self._windows = _Windows(strategy, initial)
        self._merger = merger
        self._merge_into = merge_into
        self._sessions = isinstance(strategy.window_fn, Sessions)
        self._keys: dict[bytes, _KeyWindows] = {}

    def enter(self, key: bytes, data: bytes) -> OpenWindow:
        of_key = self._load(key)
        window, _ = self._windows.decode(data)
        known = of_key.windows.get(window)
        if known is not None:
            return known
        if isinstance(window, IntervalWindow) and self._sessions:
            return self._extend(of_key, key, window)
        return self._enter(of_key, key, (window,))[window]

    def enter_all(self, key: bytes, column: Iterable[bytes]) -> dict[bytes, OpenWindow]:
        """Returns the window of a key that elements in each of the windows `column` belong to.

        Merges them all at once, which comes to the same as one after the other.
        """
        decoded = {data: self._windows.decode(data)[0] for data in dict.fromkeys(column)}
        entered = self._enter(self._load(key), key, decoded.values())
        return {data: entered[window] for data, window in decoded.items()}

    def of_key(self, key: bytes) -> Iterable[OpenWindow]:
        """Returns the open windows of a key."""
        return self._load(key).windows.values()

    def _enter(
        self, of_key: _KeyWindows, key: bytes, windows: Collection[Window]
    ) -> dict[Window, OpenWindow]:
        """Opens windows of a key, and merges those there are as that asks for."""
        affected = of_key.near(
            min(map(start_of, windows)), max(window.max_timestamp() for window in windows)
        )
        answer = self._merger.merge([[*[part.window for part in affected], *windows]])[0]
        parts_of: dict[Window, list[OpenWindow]] = {}
        for part in affected:
            parts_of.setdefault(answer.get(part.window, part.window), []).append(part)
        for result, parts in parts_of.items():
            if len(parts) > 1 or parts[0].window != result:
                self._merge(of_key, key, parts, result)
        entered = {}
        for window in windows:
            result = answer.get(window, window)
            known = of_key.windows.get(result)
            entered[window] = known if known is not None else self._open(of_key, key, result)
        return entered

    def _extend(self, of_key: _KeyWindows, key: bytes, window: IntervalWindow) -> OpenWindow:
        """Opens a session, which becomes one with all those it overlaps."""
        parts = of_key.near(window.start, window.end - 1)
        if not parts:
            return self._open(of_key, key, window)
        start = min(window.start, start_of(parts[0].window))
        end = max(window.end - 1, parts[-1].max_timestamp) + 1
        hull = IntervalWindow(start, end)
        if parts[0].window != hull:
            return self._merge(of_key, key, parts, hull)
        return parts[0]

    def get(self, key: bytes, data: bytes) -> OpenWindow | None:
        return self._load(key).windows.get(self._windows.decode(data)[0])

    def close(self, window: OpenWindow) -> None:
        self._keys[window.key].remove(window)

    def windows(self) -> Iterator[OpenWindow]:
        return (w for of_key in self._keys.values() for w in of_key.windows.values())

    def save(self) -> None:
        for key, of_key in self._keys.items():
            cell = CellId(_WINDOWS, key, b"")
            if of_key.windows:
                kept = [(w.encoded, w.kept()) for w in of_key.windows.values()]
                self._cells.replace(cell, (write_record((of_key.next_address, kept)),))
            else:
                self._cells.remove(cell)

    def _load(self, key: bytes) -> _KeyWindows:
        of_key = self._keys.get(key)
        if of_key is None:
            of_key = self._keys[key] = _KeyWindows(self._sessions)
            kept = self._cells.read(CellId(_WINDOWS, key, b""))
            if kept:
                of_key.next_address, windows = read_record(kept[0])
                for data, of_window in windows:
                    window = self._windows.open(key, data)
                    window.restore(of_window)
                    of_key.add(window)
        return of_key

    def _open(self, of_key: _KeyWindows, key: bytes, window: Window) -> OpenWindow:
        opened = self._windows.open(key, encode_window(window))
        opened.addresses = (encode_varint(of_key.next_address),)
        of_key.next_address += 1
        of_key.add(opened)
        return opened

    def _merge(
        self, of_key: _KeyWindows, key: bytes, parts: list[OpenWindow], result: Window
    ) -> OpenWindow:
        others = [part for part in parts if part.window != result]
        for part in others:
            of_key.remove(part)
        into = of_key.windows.get(result)
        if into is None:
            into = self._open(of_key, key, result)
        self._merge_into(others, into)
        return into


def start_of(window: Window) -> Timestamp:
    """Returns the start (ms) of a window if that is known, else the beginning of time."""
    return window.start if isinstance(window, IntervalWindow) else MIN_TIMESTAMP
