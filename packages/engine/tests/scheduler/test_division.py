"""Tests of the splitting of key shards (hash partitions of keys) in a saved state."""

from __future__ import annotations

import random

import attrs
import pytest
from beam_runner_model.facts import DataStatistics
from beam_runner_model.summary import EMPTY_SUMMARY, ShardSummary

from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.division import divide_shards, list_new_key_shards
from beam_runner_engine.scheduler.kept_state import (
    SavedDataPiece,
    SavedJobState,
    SavedShard,
    SavedStage,
    SavedWork,
)
from beam_runner_engine.scheduler.specs import StageKind

FEW = 4


def draw_kept_state(seed: int) -> SavedJobState:
    """Returns a saved state with ordinary and keyed stages, in which several work items and side
    inputs use the same data.
    """
    draw = random.Random(seed)
    pieces = []
    for number in range(12):
        shard = draw.choice((None, *range(FEW)))
        facts = DataStatistics(draw.randrange(1, 50), draw.randrange(1, 500), number * 10, shard)
        pieces.append(SavedDataPiece(Data(("rows", number, None), facts)))
    keyed = [n for n, piece in enumerate(pieces) if piece.data.facts.shard is not None]
    others = [n for n in range(len(pieces)) if n not in keyed]
    stages: list[SavedStage] = []
    for kind in (*StageKind, *StageKind):
        of_kind = others if kind is StageKind.ORDINARY else keyed
        work = tuple(SavedWork(draw.choice(of_kind)) for _ in range(5)) if of_kind else ()
        shards: tuple[SavedShard, ...] = ()
        if kind is not StageKind.ORDINARY:
            shards = tuple(
                SavedShard(
                    shard,
                    draw.choice(
                        (EMPTY_SUMMARY, ShardSummary(((shard, 2),), next_event_timer=shard))
                    ),
                    draw.randrange(100),
                )
                for shard in draw.sample(range(FEW), 3)
            )
        stages.append(SavedStage(f"{len(stages)}", kind, False, 1, 2, 3, shards, work))
    return SavedJobState(7, 8, tuple(pieces), tuple(stages), ())


@pytest.mark.parametrize("factor", [2, 3, 50])
@pytest.mark.parametrize("seed", range(10))
def test_split_key_shards_have_the_work_and_summary_of_the_original_shard(
    seed: int, factor: int
) -> None:
    kept = draw_kept_state(seed)
    many = FEW * factor
    divided = divide_shards(kept, FEW, many, lambda ref, shard: (*ref[:2], shard))
    assert attrs.evolve(divided, pieces=(), stages=()) == attrs.evolve(kept, pieces=(), stages=())
    assert divided.pieces[: len(kept.pieces)] == kept.pieces
    for before, after in zip(kept.stages, divided.stages, strict=True):
        if before.kind is StageKind.ORDINARY:
            assert after == before
            continue
        assert attrs.evolve(after, work=(), shards=()) == attrs.evolve(before, work=(), shards=())
        assert sorted(after.shards, key=lambda one: one.shard) == sorted(
            (
                attrs.evolve(one, shard=part)
                for one in before.shards
                for part in list_new_key_shards(one.shard, FEW, many)
            ),
            key=lambda one: one.shard,
        )
        pairs = iter(after.work)
        for work in before.work:
            whole = kept.pieces[work.piece].data
            parts = [divided.pieces[next(pairs).piece] for _ in range(factor)]
            assert whole.facts.shard is not None
            assert [part.data.facts.shard for part in parts] == [
                part for part in range(many) if part % FEW == whole.facts.shard
            ]
            for part in parts:
                assert part.data.ref == (*whole.ref[:2], part.data.facts.shard)
                assert part.origins == (work.piece,)
                assert attrs.evolve(part.data.facts, shard=whole.facts.shard) == whole.facts
        assert next(pairs, None) is None


def test_key_shard_split_divides_each_data_item_once() -> None:
    piece = SavedDataPiece(Data("rows", DataStatistics(4, 4, 0, 1)))
    stage = SavedStage("a", StageKind.GROUPING, False, 0, 0, 0, (), (SavedWork(0), SavedWork(0)))
    kept = SavedJobState(0, 0, (piece,), (stage,), ())
    divided = divide_shards(kept, 2, 4, lambda ref, shard: (ref, shard))
    assert [one.piece for one in divided.stages[0].work] == [1, 2, 1, 2]
    assert len(divided.pieces) == 3
