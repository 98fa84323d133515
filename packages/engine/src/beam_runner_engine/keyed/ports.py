"""What the keyed half needs from its host: Protocols, which the host's own classes fit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from beam_runner_engine.keyed.groups import Group
from beam_runner_engine.values.times import Timestamp
from beam_runner_engine.values.windows import Window


class WindowMerger(Protocol):
    """Merges windows; for window functions that only the SDK can compute, by asking the SDK."""

    def merge(
        self, windows_of_keys: Sequence[Collection[Window]]
    ) -> Sequence[Mapping[Window, Window]]:
        """Returns, for each key's windows, the merged window of each of them.

        Many keys are asked about at once because the answer may be a round trip away. A window
        that merges with no other may be left out. Must be deterministic.
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
