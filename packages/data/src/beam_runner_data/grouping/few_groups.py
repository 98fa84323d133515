"""Grouping of few rows: by the engine's dictionaries, which have nothing to set up.

Columns pay for themselves from some hundred rows on; ten rows take them half a millisecond.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from beam_runner_engine.keyed.bulk import create_bulk_grouper
from beam_runner_engine.keyed.ports import WindowMerger
from beam_runner_model.chunks import GroupChunk
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.times import MIN_TIMESTAMP

from beam_runner_data.grouping.groups import ONLY_PANE
from beam_runner_data.rows.columns import windows_by_row

FEW_ROWS = 128


def group_few(
    batches: Sequence[pa.RecordBatch],
    strategy: WindowingStrategy,
    merger: WindowMerger | None = None,
) -> Iterator[GroupChunk]:
    """Groups a shard as its windowing strategy says, and gives all groups in one chunk.

    Raises:
        ValueError: there is no merger, and it takes one.
    """
    grouper = create_bulk_grouper(strategy, merger)
    for batch in batches:
        has_times = "timestamp" in batch.schema.names
        grouper.add(
            batch.column("key").to_pylist(),
            windows_by_row(batch),
            batch.column("timestamp").to_pylist()
            if has_times
            else [MIN_TIMESTAMP] * batch.num_rows,
            batch.column("value").to_pylist(),
        )
    groups = list(grouper.groups())
    if groups:
        yield GroupChunk(
            keys=[group.key for group in groups],
            windows=[group.window for group in groups],
            timestamps=[group.timestamp for group in groups],
            counts=[len(group.values) for group in groups],
            values=[b"".join(group.values) for group in groups],
            pane=ONLY_PANE,
        )
