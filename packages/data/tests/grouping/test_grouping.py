"""Tests that grouping in columns follows the rules of all bulk groupers."""

from __future__ import annotations

import pytest
from beam_runner_engine.testing.bulk_contract import (
    BulkGrouperCase,
    check_bulk_grouper,
    create_bulk_cases,
)
from beam_runner_engine.testing.triggered_bulk import TriggeredBulkGrouper
from beam_runner_model.strategy import MergeStatus, WindowingStrategy
from beam_runner_model.timestamp_combiners import TimestampCombiner
from beam_runner_model.value_pieces import ValuePieces
from beam_runner_model.window_coders import encode_window
from beam_runner_model.window_fns import OpaqueWindows
from beam_runner_model.windows import OpaqueWindow
from column_groups import ColumnsGrouper, JoinParity, keyed, whole

from beam_runner_data.grouping.groups import group_into_chunks
from beam_runner_data.rows.columns import decode_batch, encode_batch, split_by_shard


def _computable(case: BulkGrouperCase) -> bool:
    return not (isinstance(case.strategy.window_fn, OpaqueWindows) and case.strategy.needs_merge)


@pytest.mark.parametrize(
    "case", list(filter(_computable, create_bulk_cases())), ids=lambda case: case.name
)
def test_columns_grouper_satisfies_bulk_grouper_contract(case: BulkGrouperCase) -> None:
    check_bulk_grouper(ColumnsGrouper, case)


@pytest.mark.parametrize("combiner", list(TimestampCombiner))
@pytest.mark.parametrize("windows", [1, 7])
def test_windows_merged_by_sdk_are_grouped(combiner: TimestampCombiner, windows: int) -> None:
    strategy = WindowingStrategy(
        window_fn=OpaqueWindows("custom"),
        merge_status=MergeStatus.NEEDS_MERGE,
        timestamp_combiner=combiner,
    )
    ends = [n % windows for n in range(100)]
    merger = JoinParity()
    graded = ColumnsGrouper(strategy, merger=merger), TriggeredBulkGrouper(strategy, JoinParity())
    for grouper in graded:
        for half in (range(50), range(50, 100)):
            grouper.add_elements(
                [b"%d" % (n % 3) for n in half],
                [encode_window(OpaqueWindow(b"w", ends[n])) for n in half],
                list(half),
                [b"%d" % n for n in half],
            )
    ours, expected = (
        sorted((g.key, g.window, g.timestamp, tuple(g.values)) for g in grouper.build_groups())
        for grouper in graded
    )
    assert ours == expected
    assert len(ours) == 3 * min(windows, 2)
    assert merger.asked == 1


def test_grouping_with_unmergeable_windows_raises_error() -> None:
    strategy = WindowingStrategy(OpaqueWindows("odd"), merge_status=MergeStatus.NEEDS_MERGE)
    grouper = ColumnsGrouper(strategy)
    grouper.add_elements([b"k"], [encode_window(OpaqueWindow(b"w", 0))], [0], [b"v"])
    with pytest.raises(ValueError, match="Only the SDK can merge"):
        list(grouper.build_groups())


def test_group_chunks_are_small_and_large_groups_are_read_in_parts() -> None:
    small = [(b"k%d" % number, b"%d" % number) for number in range(10_000)]
    large = [(b"large", b"%07d|" % number * 1000) for number in range(1000)]
    medium = [(b"m%d" % number, b"x" * 1_000_000) for number in range(10)]
    rows = [*small[:5000], *large, *medium, *small[5000:]]
    batch = keyed([key for key, _ in rows], b"", None, [value for _, value in rows])
    found: dict[bytes, bytes] = {}
    for chunk in group_into_chunks([batch], WindowingStrategy()):
        assert len(chunk.keys) <= 4096
        if len(chunk.keys) > 1:
            assert sum(map(len, chunk.values)) <= 4 << 20
        for key, values in zip(chunk.keys, chunk.values, strict=True):
            assert isinstance(values, ValuePieces) == (key == b"large")
            if isinstance(values, ValuePieces):
                assert len(values) == 8_000_000
                assert {values.piece(n)[-1:] for n in range(values.pieces)} == {b"|"}
            found[key] = whole(values)
    assert found == dict([*small, *medium, (b"large", b"".join(value for _, value in large))])


def test_encoded_batch_with_one_shared_window_round_trips() -> None:
    batch = decode_batch(encode_batch(keyed([b"a", b"b"], b"w", None, [b"1", b"2"])))
    assert (batch.schema.metadata or {})[b"window"] == b"w"
    assert batch.column("key").to_pylist() == [b"a", b"b"]


def test_key_shards_contain_each_row_once_and_equal_keys_together() -> None:
    keys = [b"k%d" % (i % 50) for i in range(1000)]
    values = [b"%d" % i for i in range(1000)]
    parts = dict(split_by_shard(keyed(keys, b"", None, values), 7))
    rows = [row for part in parts.values() for row in part.column("value").to_pylist()]
    assert sorted(rows) == sorted(values)
    seen: set[bytes] = set()
    for part in parts.values():
        distinct = set(part.column("key").to_pylist())
        assert not distinct & seen
        seen |= distinct


def test_key_shard_of_key_is_equal_in_all_processes() -> None:
    # CRC-32 of b"apple" is 2838417488. The literal detects a change of the hash.
    assert [shard for shard, _ in split_by_shard(keyed([b"apple"], b"", None, [b"1"]), 1000)] == [
        488
    ]
