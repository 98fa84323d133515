"""Panes: the values of a key in a window that a trigger fires together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, overload

from beam_runner_model.panes import PaneInfo
from beam_runner_model.times import Timestamp


class WindowPane(NamedTuple):
    """Pane of a key's window: values that a trigger fires together.

    Attributes:
        timestamp: the output timestamp (event time, ms).
        values: the values that the caller passed in, in order of arrival. After windows merge, the
            values can be ordered by window instead.
    """

    key: bytes
    window: bytes
    timestamp: Timestamp
    pane: PaneInfo
    values: Sequence[Any]


class WindowPanes(Sequence[WindowPane]):
    """Sequence of `WindowPane` in firing order, stored as columns.

    A `WindowPane` object is created only on access, so that many panes don't slow down the garbage
    collector. Callers that write columns can use the lists `keys`, `windows`, `timestamps` (ms),
    `panes` and `values`, which have the same length.
    """

    __slots__ = ("keys", "panes", "timestamps", "values", "windows")

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.windows: list[bytes] = []
        self.timestamps: list[Timestamp] = []
        self.panes: list[PaneInfo] = []
        self.values: list[Sequence[Any]] = []

    def append_pane(
        self,
        key: bytes,
        window: bytes,
        timestamp: Timestamp,
        pane: PaneInfo,
        values: Sequence[Any],
    ) -> None:
        """Appends a pane to the columns."""
        self.keys.append(key)
        self.windows.append(window)
        self.timestamps.append(timestamp)
        self.panes.append(pane)
        self.values.append(values)

    def __iadd__(self, more: WindowPanes) -> WindowPanes:
        for name in self.__slots__:
            getattr(self, name).extend(getattr(more, name))
        return self

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[WindowPane]:
        # `WindowPane._make` is Python code, and takes twice as long as `tuple.__new__`.
        return map(
            partial(tuple.__new__, WindowPane),
            zip(self.keys, self.windows, self.timestamps, self.panes, self.values, strict=True),
        )

    @overload
    def __getitem__(self, place: int) -> WindowPane: ...
    @overload
    def __getitem__(self, place: slice) -> list[WindowPane]: ...
    def __getitem__(self, place: int | slice) -> WindowPane | list[WindowPane]:
        if isinstance(place, slice):
            return list(self)[place]
        return WindowPane(
            self.keys[place],
            self.windows[place],
            self.timestamps[place],
            self.panes[place],
            self.values[place],
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WindowPanes | list) and list(self) == list(other)

    def __repr__(self) -> str:
        return f"Groups({list(self)})"
