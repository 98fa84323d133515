"""Delivery of data to the stages that read the data, as pending work or as side inputs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from beam_runner_model.times import Timestamp
from beam_runner_model.windows import Window

from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.pieces import (
    add_data_piece,
    add_data_piece_reference,
    drop_data_piece_reference,
)
from beam_runner_engine.scheduler.side_inputs import (
    add_side_input_data,
    add_waiting_work,
    find_unreadable_window,
    group_by_needed_windows,
)
from beam_runner_engine.scheduler.state import SchedulerState, ShardState, StageState, Work


def deliver_data(state: SchedulerState, collection: str, data: Data) -> None:
    """Delivers new data of a collection to all stages that read the collection. Data without
    readers is released immediately.
    """
    node = state.collections[collection].node
    piece = add_data_piece(state, data)
    for number, place in node.side_consumers:
        stage = state.stages[number]
        queue_unblocked_work(
            state, stage, add_side_input_data(state, stage, stage.sides[place], piece)
        )
    for number in node.consumers:
        for work in create_pending_work(state, state.stages[number], piece, data.facts.windows):
            queue_pending_work(state, state.stages[number], work)
    drop_data_piece_reference(state, piece)


def deliver_data_again(state: SchedulerState, stage: StageState, pieces: Iterable[Data]) -> None:
    """Delivers data to one stage only, as pending work."""
    for data in pieces:
        piece = add_data_piece(state, data)
        for work in create_pending_work(state, stage, piece, data.facts.windows):
            queue_pending_work(state, stage, work)
        drop_data_piece_reference(state, piece)


def create_pending_work(
    state: SchedulerState,
    stage: StageState,
    piece: int,
    windows: frozenset[Window] | None,
    watermark: Timestamp | None = None,
    estimator_state: Any = None,
    residual: bool = False,
    truncated: bool = False,
) -> list[Work]:
    """Creates pending work of a stage for new data, with one item for each set of required
    side-input windows.

    The new work holds back the stage's watermarks until it is processed.
    """
    data = state.pieces[piece].data
    items = []
    for members, needs in group_by_needed_windows(stage, windows):
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
        add_data_piece_reference(state, piece)
        stage.work += 1
        stage.times.add_time(work.input_hold_time)
        stage.holds.add_time(work.output_hold_time)
        items.append(work)
    return items


def remove_pending_work(state: SchedulerState, stage: StageState, work: Work) -> None:
    """Removes finished or replaced work, which then no longer holds the stage's watermarks."""
    stage.work -= 1
    stage.times.remove_time(work.input_hold_time)
    stage.holds.remove_time(work.output_hold_time)
    drop_data_piece_reference(state, work.piece)


def get_key_shard(stage: StageState, work: Work) -> int | None:
    """Returns the key shard of some work in a keyed stage, or None if the stage is not keyed."""
    return work.data.facts.shard if stage.spec.is_keyed else None


def get_shard_state(stage: StageState, shard: int | None) -> ShardState:
    """Returns the scheduling state of a key shard, and creates the state if necessary."""
    known = stage.shards.get(shard)
    if known is None:
        known = stage.shards[shard] = ShardState()
    return known


def queue_pending_work(state: SchedulerState, stage: StageState, work: Work) -> None:
    """Queues work for a bundle, or makes the work wait until its side inputs are readable."""
    stage.waiting_bytes += work.data.facts.size
    _queue_or_block_work(state, stage, get_key_shard(stage, work), work)


def queue_unblocked_work(
    state: SchedulerState, stage: StageState, freed: Iterable[tuple[int | None, Work]]
) -> None:
    """Queues work that was waiting for a side-input window and can now run. Each item has its shard."""
    for shard, work in freed:
        stage.blocked -= 1
        stage.shards[shard].blocked.remove_time(work.input_hold_time)
        _queue_or_block_work(state, stage, shard, work)


def _queue_or_block_work(
    state: SchedulerState, stage: StageState, shard: int | None, work: Work
) -> None:
    need = find_unreadable_window(state, stage, work)
    target = get_shard_state(stage, shard)
    if need is not None:
        add_waiting_work(stage, need, shard, work)
        target.blocked.add_time(work.input_hold_time)
        stage.blocked += 1
    else:
        target.ready.setdefault(work.piece, []).append(work)
        mark_shard_for_bundle_check(state, stage, shard)


def mark_shard_for_bundle_check(
    state: SchedulerState, stage: StageState, shard: int | None
) -> None:
    """Marks a key shard as a candidate for new bundles; the scheduler checks candidates at the end of the event."""
    stage.candidates[shard] = None
    state.touched[stage.number] = None
