"""Splitting of a key shard (hash partition of keys): an update distributes the keys of one shard to
several new shards.

Each new shard begins with the cells of the old shard that belong to its keys:

| cells | part of a new shard |
|---|---|
| cells of keys | the cells of its keys |
| agendas | the entries whose reference names one of its keys |
| counts of watermark holds | none, because a count doesn't say which keys need the hold |
| declared timer families | all |
| `DIVISION_MARK` | present |

The first bundle of a new shard counts the holds again, and removes the mark. Splitting reads no
state, so the duration doesn't depend on the size of the state.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Protocol

from beam_runner_model.times import Timestamp

from beam_runner_engine.keyed.cells import CellId
from beam_runner_engine.keyed.due_times import EVENTS, EXPIRIES, PROCESSING, DueTimeQueue
from beam_runner_engine.keyed.holds import HOLDS
from beam_runner_engine.keyed.lifetimes import OpenWindowRegistry
from beam_runner_engine.keyed.open_windows import OpenWindow
from beam_runner_engine.keyed.references import unpack_byte_strings
from beam_runner_engine.keyed.sorted_input import SortedInputBuffer
from beam_runner_engine.keyed.timer_families import FAMILIES
from beam_runner_engine.keyed.timers import TIMER, TimerTable
from beam_runner_engine.keyed.uncommitted_cells import UncommittedCells

DIVISION_MARK = CellId("~divided", b"", b"")
"""State cell that exists in a new shard until the shard's first bundle."""
_TIME_BYTES = 8


class NewShardCellPart(enum.Enum):
    """Part of an old shard's state cell that belongs to a new shard."""

    KEY = "key"
    """The complete cell, if the cell's key belongs to the new shard."""
    AGENDA = "agenda"
    """The subkeys whose key, from `read_key_of_due_time`, belongs to the shard."""
    SHARD = "shard"
    """The complete cell."""
    NOTHING = "nothing"


_SCOPES = {
    EVENTS: NewShardCellPart.AGENDA,
    PROCESSING: NewShardCellPart.AGENDA,
    EXPIRIES: NewShardCellPart.AGENDA,
    HOLDS.name: NewShardCellPart.NOTHING,
    DIVISION_MARK.name: NewShardCellPart.NOTHING,
    FAMILIES.name: NewShardCellPart.SHARD,
}


def get_new_shard_cell_part(name: str) -> NewShardCellPart:
    """Returns the part of a state cell with this name that belongs to a new shard."""
    return _SCOPES.get(name, NewShardCellPart.KEY)


def read_key_of_due_time(subkey: bytes) -> bytes:
    """Returns the key that an entry of an queue of due times names. References of windows
    begin with the key, and all other references have a kind before the key.
    """
    reference = unpack_byte_strings(subkey, _TIME_BYTES)
    return reference[0] if len(reference) == 2 else reference[1]


def remove_shard_split_mark(cells: UncommittedCells) -> bool:
    """Removes the mark of a new shard that an update split off, and returns whether the shard had
    the mark.
    """
    if cells.read_values(DIVISION_MARK) is None:
        return False
    cells.remove_subkey(DIVISION_MARK)
    return True


class OpenWindowReader(Protocol):
    """Reader of the open windows of keys, which the splitting of a key shard uses."""

    def get_window(self, key: bytes, data: bytes) -> OpenWindow | None:
        """Returns an open window of a key."""


def list_group_by_key_holds(
    agenda: DueTimeQueue, windows: OpenWindowReader
) -> Iterator[Timestamp | None]:
    """Yields the watermark holds that a GroupByKey has stored. The function finds them by the
    event-time queue of due times, which has an entry for each open window.
    """
    for _, (key, data) in agenda.scan_entries():
        window = windows.get_window(key, data)
        yield None if window is None else window.hold


def list_stateful_step_holds(
    cells: UncommittedCells,
    timers: TimerTable,
    sorted_input: SortedInputBuffer,
    lifetimes: OpenWindowRegistry,
) -> Iterator[Timestamp | None]:
    """Yields the watermark holds that a stateful step has stored: for timers, buffered elements and windows."""
    for name in (EVENTS, PROCESSING):
        for _, reference in DueTimeQueue(cells, name).scan_entries():
            if reference[0] == TIMER:
                yield timers.read_watermark_hold(reference)
            else:
                yield sorted_input.compute_hold_of_due_time(reference)
    for _, (key, window) in DueTimeQueue(cells, EXPIRIES).scan_entries():
        yield lifetimes.read_watermark_hold(key, window)
