"""Tests that shards above the memory limit are grouped like shards within the limit."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import attrs
import pyarrow as pa
import pytest
from beam_runner_engine.keyed.groups import WindowPane
from beam_runner_engine.keyed.ports import WindowMerger
from beam_runner_engine.testing.bulk_contract import (
    BulkGrouperCase,
    check_bulk_grouper,
    create_bulk_cases,
)
from beam_runner_model.chunks import FlushBarrier, GroupChunk
from beam_runner_model.strategy import MergeStatus, WindowingStrategy
from beam_runner_model.timestamp_combiners import TimestampCombiner
from beam_runner_model.value_pieces import ValuePieces
from beam_runner_model.window_coders import encode_window
from beam_runner_model.window_fns import FixedWindows, OpaqueWindows, Sessions
from beam_runner_model.windows import GLOBAL_WINDOW, IntervalWindow
from column_groups import ColumnsGrouper, JoinParity, keyed
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_runner_data.grouping.groups import group_into_chunks
from beam_runner_data.grouping.large_shards import LargeShard
from beam_runner_data.rows.key_partitioning import ROW_BYTES, SpillFiles

SHARDS = 2
GLOBAL = encode_window(GLOBAL_WINDOW)


def spilled(
    budget: int,
    batches: Sequence[pa.RecordBatch],
    strategy: WindowingStrategy,
    merger: WindowMerger | None = None,
) -> Iterator[GroupChunk]:
    """Groups within this memory budget, and checks that no file is left."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shard = LargeShard(strategy, merger, budget, SHARDS, SpillFiles(folder, "1-1-1"))
        weight = sum(batch.nbytes + ROW_BYTES * len(batch) for batch in batches)
        for chunk in shard.group_into_chunks(batches, weight):
            if not isinstance(chunk, FlushBarrier):
                yield chunk
        assert list(folder.iterdir()) == []


def _computable(case: BulkGrouperCase) -> bool:
    return not (isinstance(case.strategy.window_fn, OpaqueWindows) and case.strategy.needs_merge)


@pytest.mark.parametrize(
    "case", list(filter(_computable, create_bulk_cases())), ids=lambda case: case.name
)
@pytest.mark.parametrize("budget", [300, 3000])
def test_spilling_grouper_satisfies_bulk_grouper_contract(
    case: BulkGrouperCase, budget: int
) -> None:
    check_bulk_grouper(partial(ColumnsGrouper, group=partial(spilled, budget)), case)


STRATEGIES = (
    WindowingStrategy(),
    WindowingStrategy(FixedWindows(10)),
    WindowingStrategy(Sessions(3), merge_status=MergeStatus.NEEDS_MERGE),
    WindowingStrategy(OpaqueWindows("custom"), merge_status=MergeStatus.NEEDS_MERGE),
)


@given(
    rows=st.lists(
        st.tuples(st.sampled_from([b"", b"a", b"b", b"hot", b"hot"]), st.integers(0, 30)),
        max_size=60,
    ),
    cut=st.integers(1, 20),
    strategy=st.sampled_from(STRATEGIES),
    combiner=st.sampled_from(TimestampCombiner),
    budget=st.sampled_from([1, 200, 1000, 5000]),
)
@settings(max_examples=60)
def test_spilling_grouper_returns_same_groups_as_memory_grouper(
    rows: list[tuple[bytes, int]],
    cut: int,
    strategy: WindowingStrategy,
    combiner: TimestampCombiner,
    budget: int,
) -> None:
    strategy = attrs.evolve(strategy, timestamp_combiner=combiner)
    groupers = [
        ColumnsGrouper(strategy, merger=JoinParity(), group=how)
        for how in (group_into_chunks, partial(spilled, budget))
    ]
    for grouper in groupers:
        for begin in range(0, len(rows), cut):
            part = rows[begin : begin + cut]
            grouper.add_elements(
                [key for key, _ in part],
                [_window(strategy, time) for _, time in part],
                [time for _, time in part],
                [b"value %d" % number for number in range(begin, begin + len(part))],
            )
    in_memory, in_files = (sorted(map(_comparable, grouper.build_groups())) for grouper in groupers)
    assert in_files == in_memory


def _window(strategy: WindowingStrategy, time: int) -> bytes:
    match strategy.window_fn:
        case FixedWindows(size):
            return encode_window(IntervalWindow(time - time % size, time - time % size + size))
        case Sessions(gap):
            return encode_window(IntervalWindow(time, time + gap))
        case OpaqueWindows():
            return encode_window(JoinParity.window(time % 7))
    return GLOBAL


def _comparable(group: WindowPane) -> tuple[bytes, bytes, int, tuple[bytes, ...]]:
    return group.key, group.window, group.timestamp, tuple(group.values)


def test_spilling_grouper_does_not_load_hot_key_into_memory(tmp_path: Path) -> None:
    cold = [b"%d" % number for number in range(50)]
    hot = [b"%07d|" % number * 1000 for number in range(1000)]
    keys = [*cold, *[b"hot"] * len(hot)]
    values = [*cold, *hot]
    files = SpillFiles(tmp_path, "1-1-1")
    shard = LargeShard(WindowingStrategy(), None, 1 << 20, SHARDS, files)
    batches = [
        keyed(keys[begin : begin + 100], GLOBAL, None, values[begin : begin + 100])
        for begin in range(0, len(keys), 100)
    ]
    chunks = shard.group_into_chunks(batches, 8 << 20)
    found = 0
    for chunk in chunks:
        if isinstance(chunk, FlushBarrier):
            continue
        found += len(chunk.keys)
        for key, count, of_key in zip(chunk.keys, chunk.counts, chunk.values, strict=True):
            assert isinstance(of_key, ValuePieces) == (key == b"hot")
            if isinstance(of_key, ValuePieces):
                assert count == len(hot)
                for _ in range(2):
                    pieces = [of_key.piece(number) for number in range(of_key.pieces)]
                    assert b"".join(pieces) == b"".join(hot)
                assert len(of_key) == sum(map(len, hot))
                assert max(map(len, pieces)) < 3 << 20
    assert found == len(cold) + 1
    assert list(tmp_path.iterdir()) == []


def test_aborted_grouping_deletes_its_files_when_attempt_ends(tmp_path: Path) -> None:
    files = SpillFiles(tmp_path, "1-1-1")
    shard = LargeShard(WindowingStrategy(), None, 100, SHARDS, files)
    keys = [b"%d" % number for number in range(100)]
    chunks = shard.group_into_chunks([keyed(keys, GLOBAL, None, keys)], 10_000)
    next(chunks)
    names = {path.name for path in tmp_path.iterdir()}
    assert names
    assert all(name.startswith("1-1-1-") for name in names)
    files.remove_all_files()
    assert list(tmp_path.iterdir()) == []
