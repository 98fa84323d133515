"""Reader of a state segment that skips the states that an update dropped."""

from __future__ import annotations

from collections.abc import Iterable

from beam_runner_data.state.filtered_segments import FilteredSegment
from beam_runner_data.state.records import SegmentReader, decode_cell_name


class StateFilteredSegment(FilteredSegment):
    """Reader of a state segment that skips the cells of some states.

    Args:
        names: names of the states whose cells are skipped.
    """

    def __init__(self, reader: SegmentReader, names: Iterable[str]) -> None:
        super().__init__(reader)
        self._names = frozenset(names)

    def _is_cell_skipped(self, cell: bytes) -> bool:
        return decode_cell_name(cell) in self._names
