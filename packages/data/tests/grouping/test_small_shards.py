"""Tests that several shards are grouped in one pass as each shard alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from beam_runner_engine.testing.bulk_contract import create_bulk_cases
from beam_runner_model.chunks import GroupChunk
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.window_coders import encode_window
from beam_runner_model.window_fns import FixedWindows
from beam_runner_model.windows import GLOBAL_WINDOW, IntervalWindow
from column_groups import JoinParity, keyed, whole
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_data.grouping.groups import group_into_chunks
from beam_runner_data.grouping.small_shards import group_shards_into_chunks

CASES = create_bulk_cases()
SHARDS = 3


def groups_of(chunks: list[GroupChunk]) -> list[tuple[Any, ...]]:
    found = []
    for chunk in chunks:
        assert chunk.keys
        for index, key in enumerate(chunk.keys):
            windows = chunk.windows
            window = windows if isinstance(windows, bytes) else windows[index]
            values = whole(chunk.values[index])
            found.append((key, window, chunk.timestamps[index], chunk.counts[index], values))
    return found


def rows_of_shard(batches: Any, shard: int) -> Iterator[Any]:
    for rows in batches:
        own = [row for row in rows if sum(row[0]) % SHARDS == shard]
        if own:
            keys, windows, times, values = zip(*own, strict=True)
            yield keyed(keys, [encode_window(window) for window in windows], times, values)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_shards_have_the_groups_of_each_shard_alone(case: Any) -> None:
    shards = [list(rows_of_shard(case.batches, shard)) for shard in range(SHARDS)]
    together = group_shards_into_chunks(shards, case.strategy, JoinParity())
    for batches, chunks in zip(shards, together, strict=True):
        alone = list(group_into_chunks(batches, case.strategy, JoinParity()))
        assert sorted(groups_of(chunks)) == sorted(groups_of(alone))


@given(
    st.lists(st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), min_size=1))),
    st.booleans(),
)
def test_shards_keep_the_order_of_keys_and_values(
    shards: list[list[list[tuple[int, int]]]], is_windowed: bool
) -> None:
    strategy = WindowingStrategy(FixedWindows(10)) if is_windowed else WindowingStrategy()
    made = []
    for shard, batches in enumerate(shards):
        made.append([])
        for rows in batches:
            windows = [
                encode_window(IntervalWindow(10 * number, 10 * number + 10)) for _, number in rows
            ]
            made[-1].append(
                keyed(
                    [b"%d-%d" % (shard, key) for key, _ in rows],
                    windows if is_windowed else encode_window(GLOBAL_WINDOW),
                    [10 * number for _, number in rows],
                    [b"%d;" % place for place in range(len(rows))],
                )
            )
    together = group_shards_into_chunks(made, strategy)
    for batches, chunks in zip(made, together, strict=True):
        alone = groups_of(list(group_into_chunks(batches, strategy)))
        found = groups_of(chunks)
        assert sorted(found) == sorted(alone)
        assert list(dict.fromkeys(group[0] for group in found)) == list(
            dict.fromkeys(group[0] for group in alone)
        )


def test_more_groups_than_a_chunk_holds_are_divided_between_shards() -> None:
    made = [
        [keyed([b"%d-%d" % (shard, n) for n in range(3000)], b"", [0] * 3000, [b"v"] * 3000)]
        for shard in range(3)
    ]
    together = group_shards_into_chunks(made, WindowingStrategy())
    assert [sum(len(chunk.keys) for chunk in chunks) for chunks in together] == [3000] * 3
    assert [[key[:1] for key in chunks[0].keys[:1]] for chunks in together] == [
        [b"0"],
        [b"1"],
        [b"2"],
    ]
    assert max(len(chunk.keys) for chunks in together for chunk in chunks) <= 4096
