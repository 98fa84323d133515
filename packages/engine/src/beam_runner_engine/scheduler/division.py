"""Splitting of key shards (hash partitions of keys) in the saved state of a job, so that the next
job has a multiple of the old number of shards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs

from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.kept_state import SavedDataPiece, SavedJobState, SavedStage
from beam_runner_engine.scheduler.specs import StageKind

SelectKeys = Callable[[Any, int], Any]
"""Function that returns the reference to the elements of a new shard, given a reference and the shard."""


def list_new_key_shards(shard: int, before: int, after: int) -> range:
    """Returns the new shards that have the keys of a shard, because a key's shard is the hash of the key
    modulo the number of shards.

    Args:
        shard: the shard.
        before: the number of shards.
        after: the new number of shards, a multiple of `before`.
    """
    return range(shard, after, before)


def divide_shards(
    kept: SavedJobState, before: int, after: int, select: SelectKeys
) -> SavedJobState:
    """Returns a saved state in which new key shards have the work and the summaries of the old shards.

    Each new shard starts with the summary (watermark holds and timers) of the complete old shard.
    Holds and wake-ups can therefore be too early, until the first bundle of the new shard returns
    the shard's own summary.

    Args:
        kept: the saved state of a job.
        before: the number of shards of the job.
        after: the new number of shards, a multiple of `before`.
        select: selects the elements of a new shard.
    """
    pieces = _DividedData(kept, before, after, select)
    stages = tuple(
        stage
        if stage.kind is StageKind.ORDINARY
        else _divide_shards_of_stage(stage, pieces, before, after)
        for stage in kept.stages
    )
    return attrs.evolve(kept, stages=stages, pieces=tuple(pieces.all))


class _DividedData:
    """The data in a saved state, with a further piece of data for each new shard. Such a piece
    names the old shard's piece as origin, because both pieces share storage.
    """

    def __init__(self, kept: SavedJobState, before: int, after: int, select: SelectKeys) -> None:
        self.all = list(kept.pieces)
        self._before, self._after = before, after
        self._select = select
        self._parts: dict[int, tuple[int, ...]] = {}

    def divide_data_piece(self, number: int) -> tuple[int, ...]:
        """Returns the indexes of the pieces into which the data of an old shard is split, one for
        each new shard.
        """
        if number not in self._parts:
            first = len(self.all)
            self.all += self._create_parts(number)
            self._parts[number] = tuple(range(first, len(self.all)))
        return self._parts[number]

    def _create_parts(self, number: int) -> Iterator[SavedDataPiece]:
        data = self.all[number].data
        facts = data.facts
        assert facts.shard is not None, "a keyed stage has work without a shard"
        for shard in list_new_key_shards(facts.shard, self._before, self._after):
            # The exact count and size are unknown without reading the data. Callers reserve memory
            # for the data, so each new shard's data has the count and size of the old shard's
            # complete data.
            part = attrs.evolve(facts, shard=shard)
            yield SavedDataPiece(Data(self._select(data.ref, shard), part), (number,))


def _divide_shards_of_stage(
    stage: SavedStage, pieces: _DividedData, before: int, after: int
) -> SavedStage:
    return attrs.evolve(
        stage,
        shards=tuple(
            attrs.evolve(one, shard=shard)
            for one in stage.shards
            for shard in list_new_key_shards(one.shard, before, after)
        ),
        work=tuple(
            attrs.evolve(work, piece=piece)
            for work in stage.work
            for piece in pieces.divide_data_piece(work.piece)
        ),
    )
