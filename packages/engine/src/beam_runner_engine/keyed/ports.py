"""What the keyed half needs from its host: Protocols, which the host's own classes fit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from beam_runner_model.times import Timestamp
from beam_runner_model.windows import Window

from beam_runner_engine.keyed.cells import CellId
from beam_runner_engine.keyed.groups import Group


class WindowMerger(Protocol):
    """Merges windows; for window functions that only the SDK can compute, by asking the SDK."""

    def merge(
        self, windows_of_keys: Sequence[Collection[Window]]
    ) -> Sequence[Mapping[Window, Window]]:
        """Returns, for each key's windows, the merged window of each of them.

        Many keys are asked about at once because the answer may be a round trip away. Each
        collection holds a window once, because Beam's `WindowFn.merge` removes the windows it merges
        from a list. A window that merges with no other may be left out of the answer. The answer
        must be deterministic.
        """


class BulkGrouper(Protocol):
    """Groups bounded data whose windows fire once, when all of it is there.

    `beam_runner_engine.testing.bulk_contract` holds every implementation to the same rules.
    """

    def add(
        self,
        keys: Sequence[bytes],
        windows: Sequence[bytes],
        timestamps: Sequence[Timestamp],
        values: Sequence[Any],
    ) -> None:
        """Adds elements as columns of one length: encoded key, encoded window, timestamp (ms),
        value.
        """

    def groups(self) -> Iterable[Group]:
        """Returns each key and window once, in any order, with its values in the order they came
        in.

        The timestamp is what the strategy's combiner makes of the group's timestamps, the window
        the merged one if windows merge, the pane `ONLY_FIRING`.
        """


class CellStore(Protocol):
    """Reads committed cells; `beam_runner_engine.testing.store_contract` tells the rules.

    The engine reads only what a bundle needs, when it needs it. What it writes it hands to the host
    as deltas, which become part of the store when, and if, the bundle commits. Values are what was
    written: bytes and plain built-in objects from the engine, whatever the host gave for its own.
    """

    def read(self, cell: CellId, subkey: bytes) -> Sequence[Any] | None:
        """Returns the values at a subkey of a cell in the order they were added, None if absent."""

    def scan(
        self, cell: CellId, start: bytes, end: bytes | None
    ) -> Iterator[tuple[bytes, Sequence[Any]]]:
        """Returns the subkeys from `start` to before `end` (None: to the last), ascending.

        Should fetch as the iterator is used: the engine often needs the first few only.
        """
