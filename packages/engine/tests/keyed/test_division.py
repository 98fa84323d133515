"""Tests of key shards that an update split: the new shards have the state of the old shard, and
behave as the old shard.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any
from zlib import crc32

import attrs
import pytest
from beam_runner_model import triggers as t
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.summary import ShardSummary
from beam_runner_model.times import MAX_TIMESTAMP
from beam_runner_model.window_coders import encode_window
from beam_runner_model.window_fns import FixedWindows, Sessions, assign_windows

from beam_runner_engine.keyed.cells import CellDelta, CellId
from beam_runner_engine.keyed.commits import KeyedCommit
from beam_runner_engine.keyed.division import (
    DIVISION_MARK,
    NewShardCellPart,
    get_new_shard_cell_part,
    read_key_of_due_time,
)
from beam_runner_engine.keyed.grouping import TriggeredGrouper
from beam_runner_engine.keyed.holds import HOLDS, REPORTED_HOLDS
from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.keyed.stateful import StatefulShard
from beam_runner_engine.keyed.stateful_records import FiredTimer, SortedElements, StatefulSpec
from beam_runner_engine.keyed.timers import TimeDomain, Timer
from beam_runner_engine.testing.stores import MemoryCellStore

KEYS = [b"key %d" % number for number in range(9)]
FIXED = WindowingStrategy(FixedWindows(100), allowed_lateness=50)
PARTS = 3
Row = tuple[bytes, bytes, int, int]
Cells = dict[CellId, dict[bytes, list[Any]]]


def part_of(key: bytes) -> int:
    return crc32(key) % PARTS


def select_cells(cells: Cells, part: int) -> Cells:
    """Returns the state cells of a new shard, as a caller of the engine provides them."""
    found: Cells = {DIVISION_MARK: {b"": []}}
    for cell, contents in cells.items():
        match get_new_shard_cell_part(cell.name):
            case NewShardCellPart.KEY if part_of(cell.key) == part:
                found[cell] = contents
            case NewShardCellPart.SHARD:
                found[cell] = contents
            case NewShardCellPart.AGENDA:
                mine = {
                    s: v for s, v in contents.items() if part_of(read_key_of_due_time(s)) == part
                }
                if mine:
                    found[cell] = mine
    return found


def store_of(cells: Cells) -> MemoryCellStore:
    store = MemoryCellStore()
    store.commit_deltas(
        {
            cell: CellDelta(added={subkey: tuple(values) for subkey, values in contents.items()})
            for cell, contents in cells.items()
        }
    )
    return store


class Whole:
    """Caller of the engine with one key shard, which has all keys."""

    def __init__(self, run: Callable[[MemoryCellStore, list[Row], CurrentTimes], Any]) -> None:
        self.stores = [MemoryCellStore()]
        self.summaries = [ShardSummary()]
        self._run = run

    def select_rows(self, rows: list[Row], number: int) -> list[Row]:
        return rows

    def bundle(self, rows: list[Row], now: CurrentTimes) -> Counter[Any]:
        """Runs a bundle in each shard, and returns the outputs."""
        found: Counter[Any] = Counter()
        for number, store in enumerate(self.stores):
            outputs, commit = self._run(store, self.select_rows(rows, number), now)
            store.commit_deltas(commit.deltas)
            self.summaries[number] = commit.summary
            found.update(outputs)
        return found

    @property
    def holds(self) -> Counter[int]:
        """Returns the holds of all shards. The tests have less holds than a summary reports."""
        found: Counter[int] = Counter()
        for summary in self.summaries:
            assert len(summary.holds) < REPORTED_HOLDS
            found.update(dict(summary.holds))
        return found

    def earliest(self, name: str) -> int:
        """Returns the earliest due time of a kind over all shards."""
        times = (getattr(summary, name) for summary in self.summaries)
        return min((time for time in times if time is not None), default=MAX_TIMESTAMP)


class Divided(Whole):
    """Caller of the engine with the new shards into which one key shard was split."""

    def __init__(self, whole: Whole) -> None:
        super().__init__(whole._run)
        cells = whole.stores[0].copy_cells()
        self.stores = [store_of(select_cells(cells, part)) for part in range(PARTS)]
        self.summaries = [ShardSummary()] * PARTS

    def select_rows(self, rows: list[Row], number: int) -> list[Row]:
        return [row for row in rows if part_of(row[0]) == number]


def count_places(stores: Iterable[MemoryCellStore]) -> Counter[Any]:
    """Returns the values of all state cells by cell and subkey (for example, a map key). The counts
    of watermark holds are added.
    """
    found: Counter[Any] = Counter()
    for store in stores:
        for cell, contents in store.copy_cells().items():
            if get_new_shard_cell_part(cell.name) is NewShardCellPart.SHARD:
                continue
            for subkey, values in contents.items():
                if cell == HOLDS:
                    found[cell, subkey, "count"] += values[0]
                else:
                    found[cell, subkey, repr(values)] += 1
    return found


def random_rows(rng: random.Random, strategy: WindowingStrategy, now: CurrentTimes) -> list[Row]:
    begin = max(0, now.watermark)
    rows = []
    for _ in range(rng.randrange(6)):
        time = begin + rng.randrange(-60, 200)
        for window in assign_windows(strategy.window_fn, time):
            rows.append((rng.choice(KEYS), encode_window(window), time, rng.randrange(1000)))
    return rows


def check_history(seed: int, strategy: WindowingStrategy, run: Any) -> None:
    """Runs a random history of bundles on the original shard, and the second half of the history
    also on the new shards.
    """
    rng = random.Random(seed)
    now = CurrentTimes(0, 0)
    whole = Whole(run)
    parts: Divided | None = None
    begin = rng.randrange(1, 8)
    for step in range(16):
        watermark = now.watermark + rng.choice((0, 10, 60, 150))
        now = CurrentTimes(watermark, now.processing_time + rng.randrange(20))
        if step == begin:
            parts = Divided(whole)
        rows = random_rows(rng, strategy, now)
        expected = whole.bundle(rows, now)
        if parts is not None:
            assert parts.bundle(rows, now) == expected
            assert parts.holds == whole.holds
            for name in ("next_event_timer", "next_processing_timer", "next_expiry"):
                assert parts.earliest(name) == whole.earliest(name)
            assert count_places(parts.stores) == count_places(whole.stores)
    last = CurrentTimes(MAX_TIMESTAMP, now.processing_time + 10_000)
    assert parts is not None
    assert parts.bundle([], last) == whole.bundle([], last)
    assert not parts.holds and not whole.holds


STRATEGIES = {
    "fixed": FIXED,
    "early": attrs.evolve(FIXED, trigger=t.AfterEndOfWindow(early=t.AfterCount(2))),
    "processing-time": attrs.evolve(FIXED, trigger=t.Always()),
    "sessions": WindowingStrategy(Sessions(40), allowed_lateness=50),
}


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("seed", range(12))
def test_split_key_shards_emit_the_panes_of_the_original_shard(name: str, seed: int) -> None:
    strategy = STRATEGIES[name]

    def run(
        store: MemoryCellStore, rows: list[Row], now: CurrentTimes
    ) -> tuple[list[Any], KeyedCommit]:
        grouper = TriggeredGrouper(strategy, store, may_result_from_split=True)
        if rows:
            keys, windows, times, values = zip(*rows, strict=True)
            panes = grouper.process_elements(keys, windows, times, values, now)
        else:
            panes = grouper.advance_time(now)
        found = [(one.key, one.window, tuple(sorted(one.values)), one.pane) for one in panes]
        return found, grouper.finish_bundle()

    check_history(seed, strategy, run)


@pytest.mark.parametrize("seed", range(30))
def test_split_key_shards_run_the_timers_of_the_original_shard(seed: int) -> None:
    rng = random.Random(seed)
    spec = StatefulSpec(
        FIXED,
        on_window_expiration=rng.random() < 0.5,
        time_sorted_input=rng.random() < 0.5,
        timer_families=frozenset({"event", "processing"}),
        may_result_from_split=True,
    )

    def run(
        store: MemoryCellStore, rows: list[Row], now: CurrentTimes
    ) -> tuple[list[Any], KeyedCommit]:
        shard = StatefulShard(spec, store)
        found: list[Any] = []
        if rows:
            keys, windows, times, values = zip(*rows, strict=True)
            admitted = shard.accept_elements(keys, windows, times, values, now)
            for row, window in zip(admitted.rows, admitted.windows, strict=True):
                set_timers(shard, keys[row], window, values[row])
                found.append((keys[row], window, values[row]))
        while (due := shard.take_next_due_work(now)) is not None:
            if isinstance(due, FiredTimer):
                found.append((due.timer.key, due.timer.family, due.timer.fire_time))
            elif isinstance(due, SortedElements):
                found.append((due.key, due.window, tuple(due.values)))
            else:
                found.append((due.key, due.window))
        return found, shard.finish_bundle()

    check_history(seed, FIXED, run)


def set_timers(shard: StatefulShard, key: bytes, window: bytes, value: int) -> None:
    """Sets timers whose times and holds depend on the element only."""
    hold = value if value % 3 else None
    shard.set_timer(Timer(key, window, "event", "", TimeDomain.EVENT_TIME, value, hold))
    shard.set_timer(
        Timer(key, window, "processing", "tag", TimeDomain.PROCESSING_TIME, value % 200, value)
    )


def test_first_bundle_after_a_key_shard_split_removes_the_split_mark() -> None:
    store = store_of({DIVISION_MARK: {b"": []}})
    grouper = TriggeredGrouper(FIXED, store, may_result_from_split=True)
    grouper.advance_time(CurrentTimes(0))
    store.commit_deltas(grouper.finish_bundle().deltas)
    assert store.copy_cells() == {}
