"""Mutations of a transfer: each loses or repeats a part of the state, as a mistake would."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs
from beam_runner_model.times import MIN_TIMESTAMP

from beam_runner_engine.scheduler import transfer
from beam_runner_engine.scheduler.kept_state import SavedJobState, SavedShard, SavedStage, SavedWork
from beam_runner_engine.scheduler.scheduler import Scheduler

from .updated_host import Mutation

_deliver_root_data = transfer._deliver_root_data


def change_stages(change: Callable[[SavedStage], SavedStage]) -> Mutation:
    def mutate(scheduler: Scheduler, kept: SavedJobState) -> SavedJobState:
        return attrs.evolve(kept, stages=tuple(map(change, kept.stages)))

    return mutate


def change_shards(**changes: Any) -> Mutation:
    def change(shard: SavedShard) -> SavedShard:
        return attrs.evolve(shard, **changes)

    return change_stages(lambda one: attrs.evolve(one, shards=tuple(map(change, one.shards))))


def change_summaries(**changes: Any) -> Mutation:
    def change(shard: SavedShard) -> SavedShard:
        return attrs.evolve(shard, summary=attrs.evolve(shard.summary, **changes))

    return change_stages(lambda one: attrs.evolve(one, shards=tuple(map(change, one.shards))))


def change_work(change: Callable[[SavedWork], Iterable[SavedWork]]) -> Mutation:
    return change_stages(
        lambda one: attrs.evolve(
            one, work=tuple(after for before in one.work for after in change(before))
        )
    )


def forget_bundles(scheduler: Scheduler, kept: SavedJobState) -> SavedJobState:
    bundles = (*scheduler.open_bundles, *scheduler.paused_bundles)
    running = {(bundle.stage, one.data) for bundle in bundles for one in bundle.inputs}
    stages = (
        attrs.evolve(
            stage,
            work=tuple(
                work
                for work in stage.work
                if (stage.identity, kept.pieces[work.piece].data) not in running
            ),
        )
        for stage in kept.stages
    )
    return attrs.evolve(kept, stages=tuple(stages))


def forget_watermarks(scheduler: Scheduler, kept: SavedJobState) -> SavedJobState:
    nothing: dict[str, Any] = {
        "upstream": MIN_TIMESTAMP,
        "input": MIN_TIMESTAMP,
        "output": MIN_TIMESTAMP,
    }
    return attrs.evolve(
        kept,
        stages=tuple(attrs.evolve(stage, **nothing) for stage in kept.stages),
        collections=tuple(attrs.evolve(one, watermark=MIN_TIMESTAMP) for one in kept.collections),
    )


def forget_origins(scheduler: Scheduler, kept: SavedJobState) -> SavedJobState:
    pieces = tuple(attrs.evolve(piece, origins=()) for piece in kept.pieces)
    return attrs.evolve(kept, pieces=pieces)


def restart_bundle_numbers(scheduler: Scheduler, kept: SavedJobState) -> SavedJobState:
    return attrs.evolve(kept, next_bundle=0)


def deliver_all_roots(state: Any, roots: Any, match: Any) -> None:
    """Gives the data of all roots, as if no stage was known."""
    _deliver_root_data(state, roots, attrs.evolve(match, stages={}, side_inputs={}))


def deliver_no_roots(state: Any, roots: Any, match: Any) -> None:
    """Gives the data of no root."""


MUTATIONS: dict[str, Mutation] = {
    "bundles": forget_bundles,
    "holds": change_summaries(holds=()),
    "wake-ups": change_summaries(
        next_event_timer=None, next_processing_timer=None, next_expiry=None
    ),
    "shard watermarks": change_shards(watermark=MIN_TIMESTAMP),
    "delayed residuals": change_work(lambda work: () if work.due is not None else (work,)),
    "watermarks": forget_watermarks,
    "estimator watermarks": change_work(lambda work: (attrs.evolve(work, watermark=None),)),
    "delays": change_work(lambda work: (attrs.evolve(work, due=None),)),
    "windows of work": change_work(lambda work: (attrs.evolve(work, windows=None),)),
    "side inputs": change_stages(lambda stage: attrs.evolve(stage, side_inputs=())),
    "origins": forget_origins,
    "bundle numbers": restart_bundle_numbers,
}
"""Mutations of the kept form, by the part of the state that each mutation loses."""

ROOT_MUTATIONS: dict[str, Callable[[Any, Any, Any], None]] = {
    "impulses given again": deliver_all_roots,
    "impulses of new stages": deliver_no_roots,
}
"""Replacements for the delivery of roots."""
