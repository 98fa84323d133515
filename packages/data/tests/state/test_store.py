"""Tests that the state of a key shard equals the sum of all commits, for any layout in files."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pytest
from beam_runner_engine.keyed.cells import CellDelta, CellId
from beam_runner_engine.testing.store_contract import CELL, CommittingCellStore, list_store_checks
from beam_runner_engine.testing.stores import MemoryCellStore
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_data.rows.errors import SegmentError
from beam_runner_data.rows.refs import StateCommit
from beam_runner_data.state import segments
from beam_runner_data.state import store as state_store
from beam_runner_data.state.compaction import (
    CompactionPlan,
    CompactionResult,
    compact_segments,
)
from beam_runner_data.state.records import HIDES, ROW
from beam_runner_data.state.store import ShardStore

NAMES = (f"state/{number}" for number in itertools.count())


class Committed(ShardStore):
    """A state store that commits changes itself, as the server does, and runs due merges."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, ())
        self._root = folder

    def commit_deltas(self, deltas: Mapping[CellId, CellDelta]) -> None:
        self.advance_to_commit(self.write_commit(deltas, next(NAMES)))

    def merge_due(self) -> None:
        while plan := self.plan_compaction():
            self.advance_to_commit(
                compact_segments(self._root, plan, next(NAMES)).replace_segments(self.segments)
            )

    def contents(self, cell: CellId) -> dict[bytes, list[Any]]:
        return {subkey: list(values) for subkey, values in self.scan_subkeys(cell, b"", None)}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Committed]:
    store = Committed(tmp_path)
    yield store
    store.close()


@pytest.fixture
def tables() -> Iterator[None]:
    """Makes every segment a large segment, and disables merges in commits."""
    with (
        mock.patch.object(segments, "SMALL_BYTES", -1),
        mock.patch.object(state_store, "MERGED_IN_COMMIT", 0),
    ):
        yield


def value(data: bytes) -> CellDelta:
    """Returns the engine's delta of a replaced value."""
    return CellDelta(removed=frozenset({b""}), added={b"": (data,)})


def cell_of(key: int) -> CellId:
    return CellId("value", b"%08d" % key, b"")


@pytest.mark.parametrize("check", list_store_checks(), ids=lambda check: check.__name__)
def test_shard_store_satisfies_cell_store_contract(
    check: Callable[[CommittingCellStore], None], store: Committed
) -> None:
    check(store)


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("check", list_store_checks(), ids=lambda check: check.__name__)
def test_shard_store_with_large_segments_satisfies_cell_store_contract(
    check: Callable[[CommittingCellStore], None], store: Committed
) -> None:
    check(store)


CELLS = [CellId("s", b"k", b""), CellId("s", b"k", b"w"), CellId("~q", b"", b"")]
SUBKEYS = [b"", b"\0", b"a", b"ab", b"b", b"\xff"]
ENDS = st.one_of(st.none(), st.sampled_from(SUBKEYS))
DELTAS = st.builds(
    CellDelta,
    cleared=st.sampled_from([False, False, False, True]),
    removed_ranges=st.lists(st.tuples(st.sampled_from(SUBKEYS), ENDS), max_size=2).map(tuple),
    removed=st.frozensets(st.sampled_from(SUBKEYS), max_size=3),
    added=st.dictionaries(
        st.sampled_from(SUBKEYS),
        st.lists(
            st.one_of(st.binary(max_size=3), st.integers(-(2**63), 2**63 - 1)), max_size=2
        ).map(tuple),
        max_size=3,
    ),
)
COMMITS = st.dictionaries(st.sampled_from(CELLS), DELTAS, max_size=3)
STEPS = st.lists(
    st.one_of(
        COMMITS,
        COMMITS,
        st.sampled_from(["reopen", "scan", "due"]),
        st.tuples(st.integers(0, 8), st.integers(1, 9), st.lists(COMMITS, max_size=2)),
    ),
    max_size=24,
)


class Shard:
    """A state store and an equivalent store in memory, which must be equal after every step."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = ShardStore(folder, ())
        self.model = MemoryCellStore()

    def step(self, step: Any) -> None:
        match step:
            case "reopen":
                self.store.close()
                self.store = ShardStore(self.folder, self.store.segments)
            case "scan":
                for cell in CELLS:
                    next(self.store.scan_subkeys(cell, b"", None), None)
            case "due":
                if plan := self.store.plan_compaction():
                    self.compact(plan, [])
            case (start, length, meanwhile):
                if run := self.store.segments[start : start + length]:
                    self.compact(CompactionPlan(run, oldest=not start), meanwhile)
            case deltas:
                self.commit(deltas)

    def commit(self, deltas: Mapping[CellId, CellDelta], keep: int = 0) -> None:
        before = self.store.segments
        commit = self.store.write_commit(deltas, next(NAMES), keep=keep)
        assert commit.segments[:keep] == before[:keep]
        self.model.commit_deltas(deltas)
        self.store.advance_to_commit(commit)

    def compact(self, plan: CompactionPlan, meanwhile: list[Mapping[CellId, CellDelta]]) -> None:
        """Merges segments while bundles commit."""
        keep = self.store.segments.index(plan.segments[-1]) + 1
        for deltas in meanwhile:
            self.commit(deltas, keep)
        compaction = compact_segments(self.folder, plan, next(NAMES))
        self.store.advance_to_commit(compaction.replace_segments(self.store.segments))

    def check(self) -> None:
        for cell in CELLS:
            for start, end in itertools.product(SUBKEYS[1:], [*SUBKEYS, None]):
                got = list(self.store.scan_subkeys(cell, start, end))
                assert got == list(self.model.scan_subkeys(cell, start, end))
            for subkey in SUBKEYS:
                assert self.store.read_values(cell, subkey) == self.model.read_values(cell, subkey)
        fresh = ShardStore(self.folder, self.store.segments)
        for cell in CELLS:
            assert list(fresh.scan_subkeys(cell, b"", None)) == list(
                self.model.scan_subkeys(cell, b"", None)
            )
        fresh.close()


@given(
    steps=STEPS,
    small=st.sampled_from([-1, 40, segments.SMALL_BYTES]),
    merged=st.sampled_from([0, 2000, state_store.MERGED_IN_COMMIT]),
)
def test_shard_store_after_random_operations_equals_memory_store(
    steps: list[Any], small: int, merged: int
) -> None:
    with (
        TemporaryDirectory() as folder,
        mock.patch.object(segments, "SMALL_BYTES", small),
        mock.patch.object(state_store, "MERGED_IN_COMMIT", merged),
    ):
        shard = Shard(Path(folder))
        for step in steps:
            shard.step(step)
            shard.check()
        shard.store.close()


def test_commit_without_changes_writes_no_file(store: Committed, tmp_path: Path) -> None:
    store.commit_deltas({})
    store.commit_deltas({CELL: CellDelta()})
    store.commit_deltas({CELL: CellDelta(cleared=True)})
    assert store.segments == ()
    store.commit_deltas({CELL: value(b"1")})
    before = store.segments
    store.commit_deltas({CELL: CellDelta()})
    assert store.segments == before
    assert [segment.path for segment in before] == [
        str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()
    ]


def test_written_delta_is_readable_only_after_commit(store: Committed) -> None:
    store.commit_deltas({CELL: value(b"1")})
    commit = store.write_commit({CELL: value(b"2")}, "state/other")
    assert store.read_values(CELL, b"") == (b"1",)
    store.advance_to_commit(commit)
    assert store.read_values(CELL, b"") == (b"2",)
    store.advance_to_commit(StateCommit(()))
    assert store.read_values(CELL, b"") is None


def test_shard_store_scan_fetches_entries_lazily(store: Committed) -> None:
    with mock.patch.object(segments, "SMALL_BYTES", -1):
        store.commit_deltas({CELL: CellDelta(added={b"%06d" % n: (n,) for n in range(1000)})})
    with mock.patch.object(state_store, "decode_values", wraps=state_store.decode_values) as decode:
        scan = store.scan_subkeys(CELL, b"000500", None)
        assert [next(scan) for _ in range(3)] == [(b"%06d" % n, (n,)) for n in (500, 501, 502)]
        assert decode.call_count == 3


def test_damaged_segment_is_reported_by_name(store: Committed, tmp_path: Path) -> None:
    store.commit_deltas({CELL: value(b"1")})
    fresh = ShardStore(tmp_path, store.segments)
    path = tmp_path / store.segments[0].path
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(SegmentError, match=f"{path} is damaged"):
        fresh.read_values(CELL, b"")
    path.unlink()
    with pytest.raises(SegmentError, match=f"{path} is missing"):
        list(fresh.scan_subkeys(CELL, b"", None))
    with pytest.raises(SegmentError, match=f"{path} is missing"):
        compact_segments(tmp_path, CompactionPlan(store.segments, oldest=True), "merged")
    assert not (tmp_path / "merged").exists()


def test_overwritten_values_are_deleted(store: Committed) -> None:
    for number in range(300):
        store.commit_deltas({cell_of(number % 3): value(b"%1000d" % number)})
        assert sum(segment.size for segment in store.segments) < 9000
    assert len(store.segments) < 8


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("many", [1, 2000])
def test_cleared_state_cells_leave_no_entry(store: Committed, many: int) -> None:
    subkeys = [b"%06d" % number for number in range(many)]
    for key in range(5):
        store.commit_deltas({cell_of(key): CellDelta(added={s: (bytes(100),) for s in subkeys})})
    for key in range(5):
        store.commit_deltas({cell_of(key): CellDelta(cleared=True)})
        store.merge_due()
    assert store.segments == ()


@pytest.mark.usefixtures("tables")
def test_removed_map_keys_and_ranges_leave_no_entry(store: Committed) -> None:
    store.commit_deltas({CELL: CellDelta(added={b"%06d" % n: (bytes(100),) for n in range(5000)})})
    store.commit_deltas({CELL: CellDelta(removed=frozenset(b"%06d" % n for n in range(2000)))})
    assert store.plan_compaction() is None
    store.commit_deltas({CELL: CellDelta(removed_ranges=((b"002000", b"004999"),))})
    store.merge_due()
    assert [segment.level for segment in store.segments] == [1]
    assert store.contents(CELL) == {b"004999": [bytes(100)]}
    assert store.segments[0].size < 100000


@pytest.mark.usefixtures("tables")
def test_range_removed_repeatedly_causes_no_needless_compaction(store: Committed) -> None:
    store.commit_deltas({CELL: CellDelta(added={b"%06d" % n: (bytes(100),) for n in range(5000)})})
    for _ in range(6):
        store.commit_deltas({CELL: CellDelta(removed_ranges=((b"000000", b"001000"),))})
        store.commit_deltas({CELL: CellDelta(removed=frozenset({b"001500"}))})
        assert len(store.segments) > 8 or store.plan_compaction() is None


@pytest.mark.usefixtures("tables")
def test_shard_store_scan_of_queue_does_not_read_removed_head(store: Committed) -> None:
    times = [b"%06d" % number for number in range(5000)]
    store.commit_deltas({CELL: CellDelta(added=dict.fromkeys(times, ()))})
    for start in range(0, 3000, 500):
        assert next(store.scan_subkeys(CELL, b"", None)) == (times[start], ())
        store.commit_deltas({CELL: CellDelta(removed=frozenset(times[start : start + 500]))})
    oldest = store._open_readers()[0]
    with mock.patch.object(
        type(oldest),
        "_read_verified",
        autospec=True,
        side_effect=type(oldest)._read_verified,
    ) as rows:
        assert next(store.scan_subkeys(CELL, b"", None)) == (times[3000], ())
        assert rows.call_count <= 2 * len(store.segments)
    assert store.segments[-1].size < 100000
    store.commit_deltas({CELL: CellDelta(removed=frozenset(times[3000:]))})
    store.merge_due()
    assert store.segments == ()


def test_segments_of_small_commits_are_compacted_together(store: Committed) -> None:
    written = 0
    for number in range(1000):
        store.commit_deltas({cell_of(number): value(bytes(200))})
        written += store.segments[-1].size
        assert len(store.segments) <= 7 * 3
    assert store.plan_compaction() is None
    assert written < 6 * sum(segment.size for segment in store.segments)


def test_entries_of_running_compaction_are_retained(store: Committed) -> None:
    for number in range(7):
        store.commit_deltas({cell_of(number): value(b"1")})
    kept = store.segments
    assert len(kept) == 7
    all_again = {cell_of(number): value(b"2") for number in range(7)}
    assert len(store.write_commit(all_again, next(NAMES)).segments) == 1, "most entries are hidden"
    assert store.write_commit(all_again, next(NAMES), keep=7).segments[:-1] == kept
    another = {cell_of(7): value(b"1")}
    assert len(store.write_commit(another, next(NAMES)).segments) == 1, "a tier is full"
    for keep in range(1, 8):
        assert store.write_commit(another, next(NAMES), keep=keep).segments[:-1] == kept
    for number in range(8):
        deltas = {cell_of(number): value(b"3")}
        store.advance_to_commit(store.write_commit(deltas, next(NAMES), keep=7))
    assert store.segments[:-1] == kept, "later segments are merged"


@pytest.mark.usefixtures("tables")
def test_compaction_deletes_tombstones_of_deleted_entries(store: Committed, tmp_path: Path) -> None:
    store.commit_deltas({cell_of(1): value(bytes(100))})
    plan = CompactionPlan((*store.segments,), oldest=True)
    deltas = {cell_of(1): CellDelta(cleared=True), cell_of(2): value(b"2")}
    store.advance_to_commit(store.write_commit(deltas, next(NAMES), keep=1))
    store.advance_to_commit(CompactionResult(plan, None).replace_segments(store.segments))
    store.merge_due()
    (last,) = store.segments
    entries = list(segments.open_segment(tmp_path, last).read_entries())
    assert [entry[1:4] for entry in entries] == [(ROW, b"", False)]


def test_full_tier_below_other_tiers_is_not_compacted_in_commit(store: Committed) -> None:
    for number in range(8):
        deltas = {cell_of(number): value(bytes(5000))}
        store.advance_to_commit(store.write_commit(deltas, next(NAMES), keep=number))
    full = store.segments
    store.commit_deltas({cell_of(8): value(b"1")})
    assert store.segments[:-1] == full
    assert store.plan_compaction() == CompactionPlan(full, oldest=True)


@pytest.mark.usefixtures("tables")
def test_map_keys_in_removed_range_need_no_separate_tombstones(
    store: Committed, tmp_path: Path
) -> None:
    store.commit_deltas({CELL: CellDelta(added={b"a": (1,), b"c": (1,)})})
    for _ in range(2):
        store.commit_deltas({CELL: CellDelta(removed_ranges=((b"a", b"b"),))})
        store.commit_deltas({CELL: CellDelta(removed=frozenset({b"a", b"c"}))})
    merged = compact_segments(
        tmp_path, CompactionPlan(store.segments[1:], oldest=False), next(NAMES)
    ).merged
    assert merged is not None
    entries = list(segments.open_segment(tmp_path, merged).read_entries())
    assert [entry[1:] for entry in entries] == [
        (HIDES, b"", False, ((b"a", b"b"),)),
        (ROW, b"c", True, None),
    ]


def test_commit_cost_depends_on_touched_keys_only(store: Committed, tmp_path: Path) -> None:
    """The state has 40 MB. The bytes that a commit writes don't depend on this size, and neither must its work."""
    draw = random.Random(2)
    keys = 40_000
    for start in range(0, keys, 10_000):
        bundle = range(start, start + 10_000)
        store.commit_deltas({cell_of(key): value(draw.randbytes(1000)) for key in bundle})
    assert sum(segment.size for segment in store.segments) > keys * 1000
    reopened = ShardStore(tmp_path, store.segments)
    times = []
    for _ in range(20):
        began = time.thread_time()
        touched = {cell_of(key): value(bytes(1000)) for key in draw.sample(range(keys), 100)}
        for cell in touched:
            assert reopened.read_values(cell, b"")
        commit = reopened.write_commit(touched, next(NAMES))
        times.append(time.thread_time() - began)
        assert commit.segments[-1].size < 1_000_000
        reopened.advance_to_commit(commit)
    assert sorted(times)[10] < 0.1
    reopened.close()
