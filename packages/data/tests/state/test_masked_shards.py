"""Tests that the state of a shard with masks equals the state after clearing the masked cells."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any
from unittest import mock

import attrs
import pytest
from beam_runner_engine.keyed.cells import CellDelta, CellId
from beam_runner_engine.testing.stores import MemoryCellStore

from beam_runner_data.rows.refs import StateCommit
from beam_runner_data.state import segments
from beam_runner_data.state import store as state_store
from beam_runner_data.state.compaction import compact_segments
from beam_runner_data.state.store import ShardStore

STATES = ("first", "second")
CELLS = [
    CellId(name, key, window) for name in STATES for key in (b"a", b"b") for window in (b"", b"w")
]


class Shard:
    """Shard with a store and a model, which apply the same commits and masks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = ShardStore(folder, ())
        self.model = MemoryCellStore()
        self.names = (f"state/{number}" for number in itertools.count())

    def commit(self, deltas: dict[CellId, CellDelta]) -> None:
        self.store.advance_to_commit(self.store.write_commit(deltas, next(self.names)))
        self.model.commit_deltas(deltas)

    def mask(self, name: str) -> None:
        masked = (
            attrs.evolve(segment, masked=(*segment.masked, name)) for segment in self.store.segments
        )
        self.store.advance_to_commit(StateCommit(tuple(masked)))
        gone = [cell for cell in self.model.copy_cells() if cell.name == name]
        self.model.commit_deltas({cell: CellDelta(cleared=True) for cell in gone})

    def merge_due(self) -> None:
        while plan := self.store.plan_compaction():
            merged = compact_segments(self.folder, plan, next(self.names))
            self.store.advance_to_commit(merged.replace_segments(self.store.segments))

    def check(self) -> None:
        for cell in CELLS:
            stored = {
                subkey: list(values) for subkey, values in self.store.scan_subkeys(cell, b"", None)
            }
            assert stored == self.model.copy_cells().get(cell, {})
            for subkey in (b"", b"x", b"y"):
                values = self.store.read_values(cell, subkey)
                assert (None if values is None else list(values)) == stored.get(subkey)


def draw_delta(draw: random.Random) -> CellDelta:
    subkeys = draw.sample((b"", b"x", b"y"), 2)
    return CellDelta(
        cleared=draw.random() < 0.2,
        removed_ranges=((b"x", None),) if draw.random() < 0.2 else (),
        removed=frozenset(subkeys[:1]) if draw.random() < 0.4 else frozenset(),
        added={subkeys[1]: (draw.randbytes(draw.choice((1, 400))),)},
    )


@pytest.mark.parametrize("small_bytes", [-1, segments.SMALL_BYTES], ids=["tables", "small"])
def test_dropped_states_read_like_cleared_states(small_bytes: int, tmp_path: Path) -> None:
    for seed in range(12):
        draw = random.Random(seed)
        shard = Shard(tmp_path / str(seed))
        shard.folder.mkdir()
        merged_in_commit = draw.choice((0, state_store.MERGED_IN_COMMIT))
        with (
            mock.patch.object(segments, "SMALL_BYTES", small_bytes),
            mock.patch.object(state_store, "MERGED_IN_COMMIT", merged_in_commit),
        ):
            for _ in range(25):
                action = draw.random()
                if action < 0.15:
                    shard.mask(draw.choice(STATES))
                elif action < 0.25:
                    shard.merge_due()
                else:
                    cells = draw.sample(CELLS, 2)
                    shard.commit({cell: draw_delta(draw) for cell in cells})
                shard.check()
        shard.store.close()


def test_next_compaction_removes_data_of_dropped_states(tmp_path: Path) -> None:
    shard = Shard(tmp_path)
    value: Any = CellDelta(added={b"": (b"0" * 1000,)})
    with mock.patch.object(state_store, "MERGED_IN_COMMIT", 0):
        shard.commit(dict.fromkeys(CELLS, value))
        shard.mask("first")
        shard.commit({CELLS[-1]: CellDelta(removed=frozenset({b""}), added={b"": (b"1",)})})
        (before, _) = shard.store.segments
        shard.merge_due()
    (merged,) = shard.store.segments
    assert not merged.masked
    assert merged.size < before.size / 2 + 500
    shard.check()
