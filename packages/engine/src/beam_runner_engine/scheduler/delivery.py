"""How data comes to the stages that read it: as work to be done, or into their side inputs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from beam_runner_model.times import Timestamp
from beam_runner_model.windows import Window

from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.pieces import add_piece, add_use, drop_use
from beam_runner_engine.scheduler.side_inputs import (
    attach,
    first_unreadable,
    group_by_needs,
    wait_for,
)
from beam_runner_engine.scheduler.state import SchedulerState, ShardState, StageState, Work


def deliver(state: SchedulerState, collection: str, data: Data) -> None:
    """Gives new data of a collection to all stages that read it; unread data is released at once."""
    node = state.collections[collection].node
    piece = add_piece(state, data)
    for number, place in node.side_consumers:
        stage = state.stages[number]
        unblock(state, stage, attach(state, stage, stage.sides[place], piece))
    for number in node.consumers:
        for work in new_work(state, state.stages[number], piece, data.facts.windows):
            place_work(state, state.stages[number], work)
    drop_use(state, piece)


def new_work(
    state: SchedulerState,
    stage: StageState,
    piece: int,
    windows: frozenset[Window] | None,
    watermark: Timestamp | None = None,
    estimator_state: Any = None,
    residual: bool = False,
    truncated: bool = False,
) -> list[Work]:
    """Notes work of a stage, which holds its watermarks from now on; one item per side window
    needed.
    """
    data = state.pieces[piece].data
    items = []
    for members, needs in group_by_needs(stage, windows):
        work = Work(
            number=state.next_work,
            piece=piece,
            data=data,
            windows=members if members != data.facts.windows else None,
            needs=needs,
            watermark=watermark,
            estimator_state=estimator_state,
            residual=residual,
            truncated=truncated,
        )
        state.next_work += 1
        add_use(state, piece)
        stage.work += 1
        stage.times.add(work.time)
        stage.holds.add(work.hold)
        items.append(work)
    return items


def remove_work(state: SchedulerState, stage: StageState, work: Work) -> None:
    """Notes that work is done or has been replaced: it holds nothing any more."""
    stage.work -= 1
    stage.times.remove(work.time)
    stage.holds.remove(work.hold)
    drop_use(state, work.piece)


def shard_of(stage: StageState, work: Work) -> int | None:
    """Returns the key shard of work in a keyed stage, None in an ordinary one."""
    return work.data.facts.shard if stage.spec.keyed else None


def shard_state(stage: StageState, shard: int | None) -> ShardState:
    """Returns the state of a shard, new if it was never seen."""
    known = stage.shards.get(shard)
    if known is None:
        known = stage.shards[shard] = ShardState()
    return known


def place_work(state: SchedulerState, stage: StageState, work: Work) -> None:
    """Makes work ready for a bundle, or lets it wait for its side inputs."""
    stage.waiting_bytes += work.data.facts.size
    _place(state, stage, shard_of(stage, work), work)


def unblock(
    state: SchedulerState, stage: StageState, freed: Iterable[tuple[int | None, Work]]
) -> None:
    """Places work again (with its shard) that need not wait any more for what it has waited for."""
    for shard, work in freed:
        stage.blocked -= 1
        stage.shards[shard].blocked.remove(work.time)
        _place(state, stage, shard, work)


def _place(state: SchedulerState, stage: StageState, shard: int | None, work: Work) -> None:
    need = first_unreadable(state, stage, work)
    target = shard_state(stage, shard)
    if need is not None:
        wait_for(stage, need, shard, work)
        target.blocked.add(work.time)
        stage.blocked += 1
    else:
        target.ready.setdefault(work.piece, []).append(work)
        look_at(state, stage, shard)


def look_at(state: SchedulerState, stage: StageState, shard: int | None) -> None:
    """Has a shard looked at once the event is worked in: it may have something to do."""
    stage.candidates[shard] = None
    state.touched[stage.number] = None
