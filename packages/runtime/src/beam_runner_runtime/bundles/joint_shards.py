"""Bundles that contain several small key shards (hash partitions of keys). The bundle groups all
shards in one pass, and splits only between shards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, groupby

import pyarrow as pa
from beam_runner_engine.scheduler.commands import Input
from beam_runner_engine.scheduler.events import Residual
from beam_runner_model.chunks import GroupChunk


class MultiShardInput:
    """Input of a bundle that contains several key shards (hash partitions of keys).

    Args:
        inputs: inputs of the bundle, in which the inputs of a shard are adjacent.
        read: function that reads the batches of inputs.
        group: function that takes the batches of each shard, and returns the chunks of each shard.

    Attributes:
        chunks: chunks of grouped values for all shards with which the bundle starts, in the order
            of the shards.
    """

    def __init__(
        self,
        inputs: Iterable[Input],
        read: Callable[[Sequence[Input]], Iterable[pa.RecordBatch]],
        group: Callable[[Sequence[Sequence[pa.RecordBatch]]], Sequence[Sequence[GroupChunk]]],
    ) -> None:
        self._shards = [tuple(own) for _, own in groupby(inputs, lambda one: one.data.facts.shard)]
        by_shard = group([list(read(own)) for own in self._shards])
        counts = [sum(len(chunk.keys) for chunk in chunks) for chunks in by_shard]
        self._ends = list(accumulate(counts))
        self.chunks = [chunk for chunks in by_shard for chunk in chunks]

    @property
    def group_count(self) -> int:
        """Number of groups in the bundle, without the groups that splits have removed."""
        return self._ends[-1]

    @property
    def split_points(self) -> tuple[int, ...]:
        """Ascending indexes of the groups before which the bundle can be split."""
        return tuple(sorted(set(self._ends) - {0, self.group_count}))

    def split_before_group(
        self, first_residual: int
    ) -> tuple[tuple[Input, ...], tuple[Residual, ...]]:
        """Splits the bundle before a group. Returns the inputs that stay in the bundle and the
        residuals.

        Raises:
            ValueError: The split point is inside a shard.
        """
        if first_residual not in self._ends:
            raise ValueError(
                f"group {first_residual} of {self.group_count} is not the first group of a shard"
            )
        kept = self._ends.index(first_residual) + 1
        given = tuple(
            Residual(one.data, windows=one.windows, untouched=True)
            for one in _chain_inputs(self._shards[kept:])
        )
        del self._shards[kept:], self._ends[kept:]
        return tuple(_chain_inputs(self._shards)), given


def _chain_inputs(shards: Iterable[tuple[Input, ...]]) -> Iterator[Input]:
    return (one for inputs in shards for one in inputs)
