"""Groups: what grouping by key and window gives each time a window fires."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, overload

from beam_runner_model.panes import PaneInfo
from beam_runner_model.times import Timestamp


class Group(NamedTuple):
    """One pane of one key's window.

    `key` and `window` are encoded, `timestamp` is the output timestamp (ms), `values` are as the
    host gave them; the engine never looks into them. They are in the order they arrived in; those
    of windows that were merged may come window by window.
    """

    key: bytes
    window: bytes
    timestamp: Timestamp
    pane: PaneInfo
    values: Sequence[Any]


class Groups(Sequence[Group]):
    """Panes in the order they fired in: a sequence of `Group` that is kept as columns.

    A `Group` is made when it is asked for. So panes may be as many as elements without as many
    objects that the garbage collector goes through again and again; a host that writes columns
    takes `keys`, `windows`, `timestamps` (ms), `panes` and `values`, which are lists of one length.
    """

    __slots__ = ("keys", "panes", "timestamps", "values", "windows")

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.windows: list[bytes] = []
        self.timestamps: list[Timestamp] = []
        self.panes: list[PaneInfo] = []
        self.values: list[Sequence[Any]] = []

    def append(
        self,
        key: bytes,
        window: bytes,
        timestamp: Timestamp,
        pane: PaneInfo,
        values: Sequence[Any],
    ) -> None:
        """Adds a pane at the end."""
        self.keys.append(key)
        self.windows.append(window)
        self.timestamps.append(timestamp)
        self.panes.append(pane)
        self.values.append(values)

    def __iadd__(self, more: Groups) -> Groups:
        for name in self.__slots__:
            getattr(self, name).extend(getattr(more, name))
        return self

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Group]:
        # Not `Group._make`, which is written in Python and twice as slow.
        return map(
            partial(tuple.__new__, Group),
            zip(self.keys, self.windows, self.timestamps, self.panes, self.values, strict=True),
        )

    @overload
    def __getitem__(self, place: int) -> Group: ...
    @overload
    def __getitem__(self, place: slice) -> list[Group]: ...
    def __getitem__(self, place: int | slice) -> Group | list[Group]:
        if isinstance(place, slice):
            return list(self)[place]
        return Group(
            self.keys[place],
            self.windows[place],
            self.timestamps[place],
            self.panes[place],
            self.values[place],
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Groups | list) and list(self) == list(other)

    def __repr__(self) -> str:
        return f"Groups({list(self)})"
