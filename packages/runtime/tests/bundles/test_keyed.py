"""Tests of grouping by pane: a bundle reads the state that the previous bundle of its shard wrote."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest
from beam_runner_data.rows.columns import build_batch
from beam_runner_data.rows.key_partitioning import (
    SpillFiles,
    create_key_rules,
    partition_rows_to_fit_memory,
)
from beam_runner_data.rows.refs import Segment
from beam_runner_data.state import shard_stores as stores_module
from beam_runner_data.state.shard_stores import ShardStores
from beam_runner_engine.keyed.merging import SessionMerger
from beam_runner_model.chunks import FlushBarrier, GroupChunk, KeyedChunk
from beam_runner_model.strategy import AccumulationMode, MergeStatus, WindowingStrategy
from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP
from beam_runner_model.triggers import AfterCount, Repeatedly
from beam_runner_model.window_coders import WindowCoder, encode_window
from beam_runner_model.window_fns import FixedWindows, OpaqueWindows, Sessions
from beam_runner_model.windows import IntervalWindow, Window
from small_plans import bundle_of

from beam_runner_runtime.bundles import keyed as keyed_module
from beam_runner_runtime.bundles.keyed import ShardGrouping
from beam_runner_runtime.channel.messages import RunBundle

FIXED = WindowingStrategy(window_fn=FixedWindows(10))
EACH_ONE = WindowingStrategy(
    window_fn=FixedWindows(10),
    trigger=Repeatedly(AfterCount(1)),
    accumulation_mode=AccumulationMode.ACCUMULATING,
)
SESSIONS = attrs.evolve(EACH_ONE, window_fn=Sessions(10), merge_status=MergeStatus.NEEDS_MERGE)
W0, W10 = (encode_window(IntervalWindow(start, start + 10)) for start in (0, 10))


def batch(window: bytes | list[bytes], *rows: tuple[bytes, bytes, int]) -> pa.RecordBatch:
    keys, values, times = zip(*rows, strict=True)
    ends = range(1, len(rows) + 1)
    chunk = KeyedChunk(b"".join(keys), ends, b"".join(values), ends, window, times)
    return build_batch(chunk)


def bundle(
    stores: ShardStores,
    state: tuple[Segment, ...],
    name: str,
    *batches: pa.RecordBatch,
    strategy: WindowingStrategy = FIXED,
    until: int = MIN_TIMESTAMP,
    runs: Iterable[Iterable[pa.RecordBatch]] = (),
) -> tuple[list[tuple[bytes, bytes, bytes, int]], Any, tuple[Segment, ...]]:
    """Returns the panes as key, window, values and timestamp, the summary (holds and timers) of the
    shard, and the shard's new state.
    """
    order = RunBundle(
        bundle_of(shard=0, input_watermark=MIN_TIMESTAMP, end_watermark=until), name, state
    )
    grouping = ShardGrouping(strategy, order, stores)
    panes = [pane for chunk in grouping.read_chunks(runs or [batches]) for pane in panes_of(chunk)]
    commit = grouping.commit_state(name)
    assert commit.state is not None
    return panes, commit.summary, commit.state.segments


def panes_of(chunk: GroupChunk | FlushBarrier) -> list[tuple[bytes, bytes, bytes, int]]:
    if isinstance(chunk, FlushBarrier):
        return []
    windows = chunk.windows
    listed = [windows] * len(chunk.keys) if isinstance(windows, bytes) else windows
    assert all(len(values) == n for values, n in zip(chunk.values, chunk.counts, strict=True))
    return [
        (key, window, bytes(values), time)
        for key, window, values, time in zip(
            chunk.keys, listed, chunk.values, chunk.timestamps, strict=True
        )
    ]


@pytest.mark.parametrize("kept", [True, False], ids=["same process", "another process"])
def test_keyed_bundle_reads_state_of_previous_bundle(tmp_path: Path, kept: bool) -> None:
    stores = ShardStores(tmp_path)
    panes, summary, state = bundle(
        stores, (), "1", batch(W0, (b"a", b"1", 1), (b"b", b"2", 2)), batch(W0, (b"a", b"3", 3))
    )
    assert panes == []
    assert (summary.min_hold, summary.next_event_timer) == (9, 10)
    assert len(state) == 1 and (tmp_path / state[0].path).exists()
    stores = stores if kept else ShardStores(tmp_path)
    panes, summary, after = bundle(stores, state, "2", batch(W10, (b"a", b"4", 11)), until=10)
    assert sorted(panes) == [(b"a", W0, b"13", 9), (b"b", W0, b"2", 9)]
    panes, summary, last = bundle(stores, after, "3", until=MAX_TIMESTAMP)
    assert panes == [(b"a", W10, b"4", 19)]
    assert summary.holds == ()
    panes, _, _ = bundle(ShardStores(tmp_path), last, "4", until=MAX_TIMESTAMP)
    assert panes == []


def test_keyed_bundle_ignores_state_of_uncommitted_attempt(tmp_path: Path) -> None:
    stores = ShardStores(tmp_path)
    _, _, state = bundle(stores, (), "1", batch(W0, (b"a", b"1", 1)))
    bundle(stores, state, "2-1", batch(W0, (b"a", b"2", 1)))
    panes, _, _ = bundle(stores, state, "2-2", batch(W0, (b"a", b"3", 1)), until=10)
    assert panes == [(b"a", W0, b"13", 9)]


def test_panes_with_different_timings_are_emitted_separately(tmp_path: Path) -> None:
    stores = ShardStores(tmp_path)
    rows = batch(W0, (b"a", b"1", 1), (b"a", b"2", 2), (b"b", b"3", 3))
    panes, _, _ = bundle(stores, (), "1", rows, strategy=EACH_ONE)
    assert sorted(values for key, _, values, _ in panes if key == b"a")[-1] == b"12"
    assert [values for key, _, values, _ in panes if key == b"b"] == [b"3"]


def test_rows_of_a_key_are_grouped_by_window(tmp_path: Path) -> None:
    rows = batch([W0, W10], (b"a", b"1", 1), (b"a", b"2", 11))
    panes, _, _ = bundle(ShardStores(tmp_path), (), "1", rows, until=MAX_TIMESTAMP)
    assert sorted(panes) == [(b"a", W0, b"1", 9), (b"a", W10, b"2", 19)]


class Asked(SessionMerger):
    """A merger for session windows, which records the windows of its requests."""

    def __init__(self) -> None:
        self.windows: set[Any] = set()

    def merge_windows(
        self, windows_of_keys: Sequence[Collection[Window]]
    ) -> list[dict[Window, Window]]:
        self.windows.update(*windows_of_keys)
        return super().merge_windows(windows_of_keys)


def test_windows_are_merged_by_sdk_before_panes_are_emitted(tmp_path: Path) -> None:
    strategy = attrs.evolve(
        EACH_ONE,
        window_fn=OpaqueWindows("sessions of an SDK's own"),
        window_coder=WindowCoder.INTERVAL,
        merge_status=MergeStatus.NEEDS_MERGE,
    )
    spans = [(0, 10), (5, 15), (30, 40)]
    batches = [
        batch(encode_window(IntervalWindow(*span)), (b"a", b"%d" % number, span[0]))
        for number, span in enumerate(spans)
    ]
    merger = Asked()
    order = RunBundle(bundle_of(shard=0), "1", ())
    grouping = ShardGrouping(strategy, order, ShardStores(tmp_path), merger)
    chunks = grouping.read_chunks([batches])
    panes = panes_of(next(chunks))
    assert merger.windows >= {IntervalWindow(*span) for span in spans}
    panes += [pane for chunk in chunks for pane in panes_of(chunk)]
    assert [(window, values) for _, window, values, _ in panes] == [
        (encode_window(IntervalWindow(0, 15)), b"01"),
        (encode_window(IntervalWindow(30, 40)), b"2"),
    ]


@pytest.mark.parametrize(("limit", "fired"), [(16 << 20, [b"123"]), (1, [b"1", b"12", b"123"])])
def test_triggers_see_complete_bundle_unless_bundle_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, fired: list[bytes]
) -> None:
    monkeypatch.setattr(keyed_module, "_TOGETHER_BYTES", limit)
    batches = [batch(W0, (b"a", b"%d" % n, n)) for n in (1, 2, 3)]
    panes, _, _ = bundle(ShardStores(tmp_path), (), "1", *batches, strategy=EACH_ONE)
    assert [values for _, _, values, _ in panes] == fired


@pytest.mark.parametrize("strategy", [FIXED, EACH_ONE, SESSIONS], ids=["once", "each", "sessions"])
@pytest.mark.parametrize("until", [15, MAX_TIMESTAMP])
@pytest.mark.parametrize("budget", [1, 300, 2000])
def test_shard_above_memory_limit_emits_same_panes(
    tmp_path: Path, strategy: WindowingStrategy, until: int, budget: int
) -> None:
    batches = [
        batch(
            [encode_window(IntervalWindow(n % 3 * 10, n % 3 * 10 + 10)) for n in numbers],
            *((b"abhhh"[n % 5 : n % 5 + 1], b"%d" % (n % 10), n % 3 * 10) for n in numbers),
        )
        for numbers in (range(first, first + 8) for first in range(0, 80, 8))
    ]
    stores = ShardStores(tmp_path / "at once"), ShardStores(tmp_path / "in runs")
    at_once, summary, _ = bundle(stores[0], (), "1", *batches, strategy=strategy, until=until)
    files = SpillFiles(tmp_path, "1-1-1")
    dealt = partition_rows_to_fit_memory(create_key_rules(budget, files, 2), batches, 10_000)
    runs = (run.read_batches() for run in dealt)
    in_runs, summary_of_runs, _ = bundle(
        stores[1], (), "1", strategy=strategy, until=until, runs=runs
    )
    assert sorted(in_runs) == sorted(at_once)
    assert at_once
    assert summary_of_runs == summary
    for place in {pane[:2] for pane in at_once}:
        both = ([pane for pane in panes if pane[:2] == place] for panes in (in_runs, at_once))
        assert next(both) == next(both)


def test_process_caches_limited_number_of_shard_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores_module, "_KEPT_STORES", 2)
    stores = ShardStores(tmp_path)
    known = {}
    for shard in range(4):
        known[shard] = stores.open("stage", shard, ())
        assert len(stores._stores) <= 2
    assert stores.open("stage", 3, ()) is known[3]
    assert stores.open("stage", 0, ()) is not known[0]


def test_shards_with_same_number_of_different_stages_have_separate_state(tmp_path: Path) -> None:
    stores = ShardStores(tmp_path)
    assert stores.open("one", 0, ()) is not stores.open("other", 0, ())
