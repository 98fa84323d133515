"""Snapshots that led to the state of an Iceberg table, and the snapshots among these that a stream
hasn't read.

IDs of snapshots have no order. The position of a stream is a sequence number, which each snapshot of
a table with the format version 2 or later has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs


def list_ancestors(table: Any) -> Iterator[Any]:
    """Yields the current snapshot and its ancestors, the newest first, up to an expired ancestor."""
    known = {one.snapshot_id: one for one in table.metadata.snapshots}
    snapshot = table.current_snapshot()
    while snapshot is not None:
        yield snapshot
        snapshot = known.get(snapshot.parent_snapshot_id)


@attrs.frozen
class LineageReader:
    """Reader of the snapshots that follow a position.

    Attributes:
        name: name of the table, for errors.
        ignores_removals: whether rows that the stream has read may have been removed by a rollback.
    """

    name: str
    ignores_removals: bool

    def find_snapshot_position(self, table: Any, after: int | None) -> int:
        """Returns the position after a snapshot; None stands for the current one.

        Raises:
            ValueError: The table has an old format version, or its lineage doesn't have the snapshot.
        """
        if table.format_version < 2:
            raise ValueError(
                f"the table {self.name} has the format version {table.format_version}, in which"
                " snapshots have no order: a stream needs version 2 or later"
            )
        for snapshot in list_ancestors(table):
            if after in (None, snapshot.snapshot_id):
                return int(snapshot.sequence_number) + 1
        if after is not None:
            raise ValueError(
                f"the current state of the table {self.name} has no ancestor with the ID {after}: the"
                " snapshot was expired or rolled back, or belongs to another branch"
            )
        return 1

    def list_new_snapshots(self, table: Any, start: int) -> list[Any]:
        """Returns the snapshots from a position on, the oldest first.

        Raises:
            ValueError: A snapshot that the stream needs was expired, or a snapshot that it has read was
                rolled back.
        """
        new: list[Any] = []
        last = None
        for snapshot in list_ancestors(table):
            if snapshot.sequence_number < start:
                last = snapshot
                break
            new.append(snapshot)
        new.reverse()
        self._check_start(table, start, new, last)
        return new

    def _check_start(self, table: Any, start: int, new: list[Any], last: Any) -> None:
        """Checks that the lineage continues from the snapshot before the position."""
        read = start - 1
        if table.metadata.last_sequence_number < read:
            raise ValueError(
                f"the table {self.name} has no snapshot with the sequence number {read}, which the"
                " stream has read: the table was replaced. Start a new job"
            )
        if last is None and new:
            # The number proves that no snapshot is missing. The parent doesn't: `pyiceberg` removes the
            # IDs of expired parents. Other branches also take numbers.
            if new[0].sequence_number != start:
                raise ValueError(
                    f"the table {self.name} has expired snapshots that the stream hasn't read, between"
                    f" the sequence numbers {start} and {new[0].sequence_number}. Start a new job"
                )
            return
        reached = 0 if last is None else last.sequence_number
        if reached != read and not self.ignores_removals:
            raise ValueError(
                f"the table {self.name} was rolled back behind the sequence number {read}, which the"
                " stream has read: set ignore_removals=True, or start a new job"
            )
