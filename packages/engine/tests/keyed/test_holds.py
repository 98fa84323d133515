"""Tests that holds are counted across bundles, and that releasing a missing hold is an error."""

from __future__ import annotations

import pytest

from beam_runner_engine.keyed.holds import REPORTED_HOLDS, WatermarkHolds
from beam_runner_engine.keyed.uncommitted_cells import UncommittedCells
from beam_runner_engine.testing.stores import MemoryCellStore


def _bundle(
    store: MemoryCellStore, *moves: tuple[int | None, int | None]
) -> tuple[tuple[int, int], ...]:
    cells = UncommittedCells(store)
    holds = WatermarkHolds(cells)
    for old, new in moves:
        holds.move_watermark_hold(old, new)
    holds.save_hold_counts()
    store.commit_deltas(cells.list_cell_deltas())
    return holds.list_earliest_watermark_holds()


def test_watermark_holds_are_counted_across_bundles() -> None:
    store = MemoryCellStore()
    assert _bundle(store, (None, 5), (None, 5), (None, -7)) == ((-7, 1), (5, 2))
    assert _bundle(store, (5, None), (-7, 8), (9, 9)) == ((5, 1), (8, 1))
    assert _bundle(store, (5, 8)) == ((8, 2),)
    assert _bundle(store, (8, None), (8, None)) == ()
    assert store.copy_cells() == {}


def test_shard_summary_contains_only_the_earliest_holds() -> None:
    moves = [(None, time) for time in range(REPORTED_HOLDS + 10)]
    told = _bundle(MemoryCellStore(), *moves)
    assert told == tuple((time, 1) for time in range(REPORTED_HOLDS))


def test_release_of_a_missing_watermark_hold_raises_value_error() -> None:
    with pytest.raises(ValueError, match="the watermark hold at 5 ms"):
        _bundle(MemoryCellStore(), (5, None))
