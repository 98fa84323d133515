"""Grouping of several small shards in one pass, because calls of Arrow take longer than their work on a
few rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from beam_runner_engine.keyed.ports import WindowMerger
from beam_runner_model.chunks import GroupChunk
from beam_runner_model.strategy import WindowingStrategy

from beam_runner_data.grouping.groups import build_chunks, group_row_batches


def group_shards_into_chunks(
    shards: Sequence[Sequence[pa.RecordBatch]],
    strategy: WindowingStrategy,
    merger: WindowMerger | None = None,
) -> list[list[GroupChunk]]:
    """Groups several small shards, and returns the chunks of each shard.

    Each chunk has groups of one shard, so that a bundle can be split between shards.

    Args:
        shards: the batches of each shard. Shards have different keys.
        strategy: see `group_into_chunks`.
        merger: see `group_into_chunks`.

    Raises:
        ValueError: The windows need a merger, and none was given.
    """
    batches = [batch for own in shards for batch in own]
    by_shard: list[list[GroupChunk]] = [[] for _ in shards]
    if not batches:
        return by_shard
    groups = group_row_batches(batches, strategy, merger)
    # Groups are in the order of their keys' first rows, so the groups of a shard are adjacent.
    row_ends = np.cumsum([sum(map(len, own)) for own in shards])
    shard_of_group = np.searchsorted(row_ends, groups.order[groups.starts[:-1]], side="right")
    ends = np.searchsorted(shard_of_group, np.arange(len(shards)), side="right").tolist()
    begin = 0
    for chunk in build_chunks(groups, strategy):
        for own, (first, last) in zip(by_shard, pairwise((0, *ends)), strict=True):
            part = slice(max(0, first - begin), max(0, last - begin))
            if chunk.keys[part]:
                own.append(_slice_chunk(chunk, part))
        begin += len(chunk.keys)
    return by_shard


def _slice_chunk(chunk: GroupChunk, part: slice) -> GroupChunk:
    windows = chunk.windows
    return GroupChunk(
        keys=chunk.keys[part],
        windows=windows if isinstance(windows, bytes) else windows[part],
        timestamps=chunk.timestamps[part],
        counts=chunk.counts[part],
        values=chunk.values[part],
        pane=chunk.pane,
    )
