"""Tests of the state segments of key shards that an update split: the new shards together have each
state cell of the old shard exactly once.
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any
from unittest import mock

import attrs
import pytest
from beam_runner_engine.keyed.cells import CellDelta, CellId
from beam_runner_engine.keyed.division import DIVISION_MARK, read_key_of_due_time
from beam_runner_engine.keyed.due_times import EVENTS
from beam_runner_engine.keyed.holds import HOLDS
from beam_runner_engine.keyed.references import pack_byte_strings
from beam_runner_engine.keyed.timer_families import FAMILIES
from beam_runner_engine.testing.stores import MemoryCellStore
from beam_runner_model.window_coders import encode_instant

from beam_runner_data.rows.refs import KeyShare
from beam_runner_data.state import segments
from beam_runner_data.state import store as state_store
from beam_runner_data.state.compaction import compact_segments
from beam_runner_data.state.store import ShardStore

KEYS = [b"key %d" % number for number in range(6)]
AGENDA = CellId(EVENTS, b"", b"")
ENTRIES = [
    encode_instant(time) + pack_byte_strings(reference)
    for time, key in itertools.product((1, 2), KEYS)
    for reference in ((key, b"window"), (b"timer", key, b"window", b"family", b""))
]
CELLS = [CellId("state", key, window) for key in KEYS for window in (b"", b"w")]
SUBKEYS = (b"", b"x", b"y")
REMOVE_MARK = {DIVISION_MARK: CellDelta(removed=frozenset({b""}))}
Cells = dict[CellId, dict[bytes, list[Any]]]


class Shard:
    """Shard with a store and a model, which apply the same commits."""

    def __init__(self, folder: Path, store: ShardStore, cells: Cells, names: Any) -> None:
        self.folder = folder
        self.store = store
        self.names = names
        self.model = MemoryCellStore()
        self.model.commit_deltas(
            {
                cell: CellDelta(added={subkey: tuple(values) for subkey, values in one.items()})
                for cell, one in cells.items()
            }
        )

    @classmethod
    def create(cls, folder: Path) -> Shard:
        names = (f"state/{number}" for number in itertools.count())
        return cls(folder, ShardStore(folder, ()), {}, names)

    def commit(self, deltas: dict[CellId, CellDelta]) -> None:
        self.store.advance_to_commit(self.store.write_commit(deltas, next(self.names)))
        self.model.commit_deltas(deltas)

    def merge_due(self) -> None:
        while plan := self.store.plan_compaction():
            merged = compact_segments(self.folder, plan, next(self.names))
            self.store.advance_to_commit(merged.replace_segments(self.store.segments))

    def divide(self, part: KeyShare) -> Shard:
        """Returns a part of the shard, whose model has the cells of the part."""
        shared = tuple(attrs.evolve(one, share=part) for one in self.store.segments)
        cells: Cells = {}
        for cell, contents in self.model.copy_cells().items():
            if cell in (HOLDS, DIVISION_MARK):
                continue
            if cell == AGENDA:
                contents = {
                    s: v for s, v in contents.items() if part.contains_key(read_key_of_due_time(s))
                }
            if contents and (cell in (AGENDA, FAMILIES) or part.contains_key(cell.key)):
                cells[cell] = contents
        if shared:
            cells[DIVISION_MARK] = {b"": []}
        return Shard(self.folder, ShardStore(self.folder, shared), cells, self.names)

    def check(self) -> None:
        model = self.model.copy_cells()
        for cell in (*CELLS, AGENDA, HOLDS, FAMILIES):
            stored = {
                subkey: list(values) for subkey, values in self.store.scan_subkeys(cell, b"", None)
            }
            assert stored == model.get(cell, {})
            for subkey in ENTRIES if cell == AGENDA else SUBKEYS:
                values = self.store.read_values(cell, subkey)
                assert (None if values is None else list(values)) == stored.get(subkey)
        mark = self.store.read_values(DIVISION_MARK, b"")
        assert (mark is not None) is (DIVISION_MARK in model)


def draw_deltas(draw: random.Random) -> dict[CellId, CellDelta]:
    found = {cell: draw_delta(draw, SUBKEYS) for cell in draw.sample(CELLS, 3)}
    if draw.random() < 0.7:
        found[AGENDA] = draw_delta(draw, ENTRIES, values=())
    if draw.random() < 0.5:
        found[HOLDS] = draw_delta(draw, SUBKEYS)
    if draw.random() < 0.2:
        found[FAMILIES] = CellDelta(removed=frozenset({b""}), added={b"": (draw.randbytes(3),)})
    return found


def draw_delta(draw: random.Random, subkeys: Any, values: Any = None) -> CellDelta:
    removed, added = draw.sample(subkeys, 2)
    data = (draw.randbytes(draw.choice((1, 400))),) if values is None else values
    return CellDelta(
        cleared=draw.random() < 0.1,
        removed_ranges=((subkeys[1], None),) if draw.random() < 0.1 else (),
        removed=frozenset({removed}) if draw.random() < 0.4 else frozenset(),
        added={added: data},
    )


def count_cells(shards: list[Shard]) -> dict[Any, int]:
    """Returns how often each subkey of a key exists."""
    found: dict[Any, int] = {}
    for shard in shards:
        for cell in (*CELLS, AGENDA):
            for subkey, values in shard.store.scan_subkeys(cell, b"", None):
                place = (cell, subkey, tuple(values))
                found[place] = found.get(place, 0) + 1
    return found


@pytest.mark.parametrize("small_bytes", [-1, segments.SMALL_BYTES], ids=["tables", "small"])
def test_split_key_shards_together_have_each_state_cell_once(
    small_bytes: int, tmp_path: Path
) -> None:
    for seed in range(8):
        draw = random.Random(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        merged_in_commit = draw.choice((0, state_store.MERGED_IN_COMMIT))
        with (
            mock.patch.object(segments, "SMALL_BYTES", small_bytes),
            mock.patch.object(state_store, "MERGED_IN_COMMIT", merged_in_commit),
        ):
            shards, count = [Shard.create(folder)], 1
            for _ in range(draw.randrange(1, 12)):
                shards[0].commit(draw_deltas(draw))
            for factor in (draw.choice((2, 3)), 2):
                before = count_cells(shards)
                shards = [
                    shard.divide(KeyShare(number + count * part, count * factor))
                    for number, shard in enumerate(shards)
                    for part in range(factor)
                ]
                shards.sort(
                    key=lambda one: one.store.segments[0].share.shard if one.store.segments else -1
                )
                count *= factor
                assert count_cells(shards) == before
                assert set(before.values()) <= {1}
                run_parts(draw, shards)
            for shard in shards:
                shard.store.close()


def run_parts(draw: random.Random, shards: list[Shard]) -> None:
    """Runs bundles in some of the parts. The first bundle of a part removes the mark."""
    for number, shard in enumerate(shards):
        shard.check()
        assert shard.store.plan_compaction() is None or not shard.store.segments
        for _ in range(draw.randrange(4)):
            share = KeyShare(number, len(shards))
            deltas = {
                cell: delta
                for cell, delta in draw_deltas(draw).items()
                if share.contains_key(cell.key) and cell.name == "state"
            }
            shard.commit(deltas | REMOVE_MARK)
            shard.merge_due()
            shard.check()


def test_compaction_after_a_key_shard_split_removes_state_of_other_shards(tmp_path: Path) -> None:
    whole = Shard.create(tmp_path)
    value: Any = CellDelta(added={b"": (b"0" * 1000,)})
    with mock.patch.object(state_store, "MERGED_IN_COMMIT", 0):
        whole.commit(dict.fromkeys(CELLS, value))
        part = whole.divide(KeyShare(1, 3))
        assert part.store.may_result_from_split
        assert part.store.plan_compaction() is None
        part.commit(REMOVE_MARK)
        part.merge_due()
    (merged,) = part.store.segments
    assert merged.share is None
    assert not part.store.may_result_from_split
    assert merged.size < whole.store.segments[0].size * 2 / 3
    part.check()
