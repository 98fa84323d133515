"""Several small shards in one bundle: grouped one after the other, and split between two of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, groupby

from beam_runner_engine.scheduler.commands import Input
from beam_runner_engine.scheduler.events import Residual
from beam_runner_model.chunks import GroupChunk


class JointShards:
    """The input of such a bundle.

    Args:
        inputs: of the bundle, those of a shard together.
        group: groups the inputs of one shard.

    Attributes:
        chunks: all groups that it began with, in order of the shards.
    """

    def __init__(
        self,
        inputs: Iterable[Input],
        group: Callable[[tuple[Input, ...]], Iterable[GroupChunk]],
    ) -> None:
        self._shards = [tuple(own) for _, own in groupby(inputs, lambda one: one.data.facts.shard)]
        by_shard = [list(group(own)) for own in self._shards]
        counts = [sum(len(chunk.keys) for chunk in chunks) for chunks in by_shard]
        self._ends = list(accumulate(counts))
        self.chunks = [chunk for chunks in by_shard for chunk in chunks]

    @property
    def groups(self) -> int:
        """How many groups the bundle has left, begun or not, from its first one."""
        return self._ends[-1]

    @property
    def points(self) -> tuple[int, ...]:
        """The numbers of groups before which the bundle may be split."""
        return tuple(sorted(set(self._ends) - {0, self.groups}))

    def split(self, first_residual: int) -> tuple[tuple[Input, ...], tuple[Residual, ...]]:
        """The bundle is split before this group: what it keeps, and what it gives away.

        Raises:
            ValueError: that would cut a shard in two.
        """
        if first_residual not in self._ends:
            raise ValueError(f"no shard begins with the group {first_residual} of {self.groups}")
        kept = self._ends.index(first_residual) + 1
        given = tuple(
            Residual(one.data, windows=one.windows, untouched=True)
            for one in _all_of(self._shards[kept:])
        )
        del self._shards[kept:], self._ends[kept:]
        return tuple(_all_of(self._shards)), given


def _all_of(shards: Iterable[tuple[Input, ...]]) -> Iterator[Input]:
    return (one for inputs in shards for one in inputs)
