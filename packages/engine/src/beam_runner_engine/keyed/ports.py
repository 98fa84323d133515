"""Protocols that the keyed half of the engine needs and the caller implements."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from beam_runner_model.times import Timestamp
from beam_runner_model.windows import Window

from beam_runner_engine.keyed.cells import CellId
from beam_runner_engine.keyed.groups import WindowPane


class WindowMerger(Protocol):
    """Merger of windows. For custom window functions, the caller asks the SDK."""

    def merge_windows(
        self, windows_of_keys: Sequence[Collection[Window]]
    ) -> Sequence[Mapping[Window, Window]]:
        """Returns, for each key, a mapping from each of the key's windows to its merged window.

        One call covers many keys, because each call can be a round trip to the SDK. The collection
        of a key's windows contains no duplicates, because Beam's `WindowFn.merge` removes merged
        windows from a list. The result can omit windows that don't merge. The result must be
        deterministic.
        """


class BulkGrouper(Protocol):
    """Grouper of bounded data whose windows fire once, after all data arrived.

    `beam_runner_engine.testing.bulk_contract` contains the contract tests for all implementations.
    """

    def add_elements(
        self,
        keys: Sequence[bytes],
        windows: Sequence[bytes],
        timestamps: Sequence[Timestamp],
        values: Sequence[Any],
    ) -> None:
        """Adds elements as columns of the same length.

        Args:
            keys: the encoded keys.
            windows: the encoded windows.
            timestamps: the event times (ms).
            values: the values.
        """

    def build_groups(self) -> Iterable[WindowPane]:
        """Returns one group for each key and window, in any order, with values in order of arrival.

        The timestamp combiner of the strategy computes the group's timestamp. If windows merge, the
        group has the merged window. The pane is `ONLY_FIRING`.
        """


class CellStore(Protocol):
    """Reader of committed state cells (the stored state of keys).
    `beam_runner_engine.testing.store_contract` contains the contract tests.

    The engine reads cells lazily. Changes are returned to the caller as deltas, which the caller
    adds to the store when the bundle commits. Values read equal values written: bytes and plain
    built-in objects for the engine's state, and the caller's values for user state.
    """

    def read_values(self, cell: CellId, subkey: bytes) -> Sequence[Any] | None:
        """Returns the values that a cell stores at a subkey (for example, a map key), in the order
        of writing; None if the subkey is absent.
        """

    def scan_subkeys(
        self, cell: CellId, start: bytes, end: bytes | None
    ) -> Iterator[tuple[bytes, Sequence[Any]]]:
        """Returns subkeys (for example, map keys) and values of a cell from `start` (included) to
        `end` (excluded; None: no bound), ascending.

        The iterator should fetch lazily, because the engine often needs only the first subkeys.
        """
