"""Removal of timers whose family user code no longer declares, after an update of the pipeline.

User code can't run such timers, and their holds would stop the watermark. While timers are set, a
cell of the shard names the families that were declared in the latest bundle. The first bundle whose
user code declares other families removes the timers of all other families, so other bundles read
one cell only.
"""

from __future__ import annotations

from collections.abc import Collection

from beam_runner_engine.keyed.cells import CellId
from beam_runner_engine.keyed.due_times import DueTimeQueue
from beam_runner_engine.keyed.references import pack_byte_strings, unpack_byte_strings
from beam_runner_engine.keyed.timers import TIMER, TimerTable
from beam_runner_engine.keyed.uncommitted_cells import UncommittedCells

FAMILIES = CellId("~families", b"", b"")
"""Cell that stores the names of the declared timer families."""


class DeclaredTimerFamilies:
    """Timer families that user code declares now, compared with the families that earlier bundles of
    the shard declared.
    """

    def __init__(self, cells: UncommittedCells, declared: Collection[str]) -> None:
        self._cells = cells
        self._declared = {family.encode() for family in declared}
        stored = cells.read_values(FAMILIES)
        self._before = set(unpack_byte_strings(stored[0])) if stored else None

    def remove_undeclared_timers(
        self, timers: TimerTable, agendas: Collection[DueTimeQueue]
    ) -> None:
        """Removes all timers whose family is no longer declared, and releases their holds."""
        if self._before is None or self._before <= self._declared:
            return
        for agenda in agendas:
            for entry in list(agenda.scan_entries()):
                kind, *_, family, _ = entry[1]
                if kind == TIMER and family not in self._declared:
                    agenda.remove_entry(*entry)
                    timers.take_timer(entry[1])

    def save_timer_families(self) -> None:
        """Writes the declared families. Call this method only if timers are set."""
        if self._before != self._declared:
            self._cells.replace_values(
                FAMILIES, (pack_byte_strings(tuple(sorted(self._declared))),)
            )
