"""Grouping of a key shard (the keys with the same hash) that is too large for memory: the module
groups one partition of the keys after the other.

All rows of a key are in one partition, which is grouped like a small shard. If the rows of a single
key don't fit, they are partitioned by merged window. If a group still doesn't fit, its values stay
in the file, and user code can read them repeatedly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from beam_runner_engine.keyed.merging import select_merger
from beam_runner_engine.keyed.ports import WindowMerger
from beam_runner_model.chunks import FlushBarrier, GroupChunk
from beam_runner_model.strategy import MergeStatus, WindowingStrategy
from beam_runner_model.timestamp_combiners import get_timestamp_selector
from beam_runner_model.value_pieces import GroupValues
from beam_runner_model.window_coders import (
    decode_max_timestamp,
    decode_window,
    encode_window,
)

from beam_runner_data.grouping.groups import ONLY_PANE, group_into_chunks
from beam_runner_data.rows.columns import (
    build_window_column,
    find_distinct_windows,
    replace_windows,
)
from beam_runner_data.rows.key_partitioning import (
    PartitioningRules,
    RowPartition,
    SpillFiles,
    create_key_rules,
    partition_rows_to_fit_memory,
)
from beam_runner_data.rows.values import read_file_values


@attrs.frozen
class LargeShard:
    """A shard whose rows don't fit into memory.

    Attributes:
        strategy: the windowing strategy, which defines how windows of a key merge.
        merger: merger of windows that the engine can't merge.
        budget: the memory limit for rows, in bytes.
        shards: the number of key shards of the job.
        files: temporary files for rows.
    """

    strategy: WindowingStrategy
    merger: WindowMerger | None
    budget: int
    shards: int
    files: SpillFiles

    def group_into_chunks(
        self, batches: Iterable[pa.RecordBatch], weight: int
    ) -> Iterator[GroupChunk | FlushBarrier]:
        """Yields all groups, as `group_into_chunks` does for the same rows, but in another order.

        A flush follows each partition, so that its memory can be released.

        Args:
            batches: the rows, read once.
            weight: size of the rows in memory, in bytes.

        Raises:
            ValueError: The windows need a merger, and `merger` is None.
        """
        for run in partition_rows_to_fit_memory(
            create_key_rules(self.budget, self.files, self.shards), batches, weight
        ):
            if run.memory_size <= self.budget:
                yield from group_into_chunks(list(run.read_batches()), self.strategy, self.merger)
            else:
                yield from self._group_rows_of_single_key(run)
            yield FlushBarrier()

    def _group_rows_of_single_key(self, run: RowPartition) -> Iterator[GroupChunk | FlushBarrier]:
        assert run.common_key is not None
        strategy, batches = self.strategy, run.read_batches()
        if strategy.needs_merge:
            merged = self._merge_windows(run)
            batches = (replace_windows(batch, merged) for batch in batches)
            windows = set(merged.values())
            strategy = attrs.evolve(strategy, merge_status=MergeStatus.NON_MERGING)
        else:
            windows = _find_windows(run)
        if len(windows) == 1:
            yield self._build_group(run, run.common_key, windows.pop())
            return
        by_window = PartitioningRules(build_window_column, self.budget, self.files)
        for part in partition_rows_to_fit_memory(by_window, batches, run.memory_size):
            if part.memory_size <= self.budget:
                yield from group_into_chunks(list(part.read_batches()), strategy)
            else:
                assert part.common_key is not None
                yield self._build_group(part, run.common_key, part.common_key)
            yield FlushBarrier()

    def _merge_windows(self, run: RowPartition) -> dict[bytes, bytes]:
        """Returns a mapping from each window of one key to its merged window."""
        coder = self.strategy.window_coder
        merging = select_merger(self.strategy, self.merger)
        assert merging is not None
        known: dict[bytes, None] = {}
        for batch in run.read_batches():
            known.update(dict.fromkeys(find_distinct_windows(batch)))
        decoded = {window: decode_window(coder, window) for window in known}
        (answer,) = merging.merge_windows([list(decoded.values())])
        return {
            window: encode_window(answer.get(value, value)) for window, value in decoded.items()
        }

    def _build_group(self, run: RowPartition, key: bytes, window: bytes) -> GroupChunk:
        size = run.size - len(key) * run.count
        values: GroupValues = read_file_values(run.folder, run.ref, size)
        return GroupChunk(
            keys=[key],
            windows=window,
            timestamps=[self._compute_timestamp(run, window)],
            counts=[run.count],
            values=[values],
            pane=ONLY_PANE,
        )

    def _compute_timestamp(self, run: RowPartition, window: bytes) -> int:
        end = decode_max_timestamp(self.strategy.window_coder, window)
        choose = get_timestamp_selector(self.strategy.timestamp_combiner)
        if choose is None:
            return end
        of_column = pc.min if choose is min else pc.max
        times = (b.column("timestamp") for b in run.read_batches() if "timestamp" in b.schema.names)
        return int(choose((of_column(column).as_py() for column in times), default=end))


def _find_windows(run: RowPartition) -> set[bytes]:
    """Returns the common window of all rows, or the distinct windows if the rows differ."""
    found: set[bytes] = set()
    for batch in run.read_batches():
        found.update(find_distinct_windows(batch))
        if len(found) > 1:
            break
    return found
