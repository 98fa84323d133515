"""Selection of bundles that can be opened, by data, watermark, processing time, side inputs and key
shard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, islice

import attrs
from beam_runner_model.times import MAX_TIMESTAMP, Timestamp

from beam_runner_engine.scheduler.splits import divide_pending_work
from beam_runner_engine.scheduler.state import SchedulerState, ShardState, StageState, Work
from beam_runner_engine.scheduler.transitions import Phase
from beam_runner_engine.scheduler.wakeups import is_shard_due

_MAX_PIECES = 1_000
"""Maximum number of queued pieces to divide at once, which bounds the cost for long queues."""


@attrs.frozen
class OpenableBundle:
    """Description of a bundle that can be opened now.

    Attributes:
        shard: the key shard; the first of several joint shards; None if the stage is not keyed.
        end_watermark: the watermark (ms) of the shard after the bundle.
    """

    shard: int | None
    work: list[Work]
    end_watermark: Timestamp


def find_openable_bundles(state: SchedulerState, stage: StageState) -> Iterator[OpenableBundle]:
    """Yields the bundles of a stage that can be opened now, and removes the work of these bundles
    from the queues.

    The function checks only shards that changed since its last call.
    """
    found = _find_bundles_to_open(state, stage)
    return _join_small_shards(found, state.limits.joint_bytes) if stage.spec.joint_shards else found


def _find_bundles_to_open(state: SchedulerState, stage: StageState) -> Iterator[OpenableBundle]:
    candidates, stage.candidates = stage.candidates, {}
    for shard in candidates:
        known = stage.shards[shard]
        if stage.spec.whole_input and (known.blocked or stage.seen_upstream < MAX_TIMESTAMP):
            continue
        if stage.spec.is_keyed:
            yield from _find_openable_keyed_bundle(state, stage, shard, known)
        else:
            yield from _find_openable_unkeyed_bundles(state, stage, known)


def _join_small_shards(
    openings: Iterable[OpenableBundle], most_bytes: int
) -> Iterator[OpenableBundle]:
    """Combines small key shards with complete input into bundles, in order, up to `most_bytes` per bundle."""
    joint: OpenableBundle | None = None
    filled = 0
    for opening in openings:
        size = sum(work.data.facts.size for work in opening.work)
        if joint is not None and filled + size <= most_bytes:
            joint.work.extend(opening.work)
            filled += size
            continue
        if joint is not None:
            yield joint
        joint, filled = opening, size
    if joint is not None:
        yield joint


def _find_openable_keyed_bundle(
    state: SchedulerState, stage: StageState, shard: int | None, known: ShardState
) -> Iterator[OpenableBundle]:
    if known.open:
        return
    watermark = min(stage.seen_upstream, known.blocked.get_earliest_time())
    if known.ready or is_shard_due(known, watermark, state.now):
        yield OpenableBundle(
            shard, _take_queued_data(known, len(known.ready)), max(watermark, known.watermark)
        )


def _find_openable_unkeyed_bundles(
    state: SchedulerState, stage: StageState, known: ShardState
) -> Iterator[OpenableBundle]:
    queue = list(islice(known.ready.values(), _MAX_PIECES))
    if not queue or _must_throttle_residuals(state, stage, queue):
        return
    if stage.spec.whole_input:
        yield OpenableBundle(None, _take_queued_data(known, len(known.ready)), stage.input)
        return
    if stage.open >= state.limits.bundles_per_stage:
        return
    if stage.spec.joint_pieces and _can_share_bundle(queue, state.limits.joint_bytes):
        yield OpenableBundle(None, _take_queued_data(known, len(queue)), stage.input)
        return
    for alike in _split_by_drain_exemption(state, queue):
        most = state.limits.bundles_per_stage - stage.open
        if most < 1:
            return
        counts = divide_pending_work(state, stage, [items[0].data.facts for items in alike], most)
        for count in counts:
            yield OpenableBundle(None, _take_queued_data(known, count), stage.input)
        if sum(counts) < len(alike):
            return


def _split_by_drain_exemption(
    state: SchedulerState, queue: list[list[Work]]
) -> Iterator[list[list[Work]]]:
    """Yields groups of consecutive queued data. A drain either truncates all restrictions of a
    group, or leaves all unchanged.

    The two kinds never share a bundle, because the caller could not tell from which kind a residual
    was split. In a drain, all data of a bundle is of the same kind.
    """
    if state.phase is not Phase.RUNNING:
        yield queue
        return
    for _, pieces in groupby(queue, lambda items: items[0].truncated):
        yield list(pieces)


def _can_share_bundle(queue: list[list[Work]], most_bytes: int) -> bool:
    """Returns whether all queued data can share a bundle: the data is small, and none of it is a
    residual.
    """
    size = sum(items[0].data.facts.size for items in queue)
    return size <= most_bytes and not any(work.residual for items in queue for work in items)


def _take_queued_data(known: ShardState, count: int) -> list[Work]:
    """Removes and returns the work on the first `count` data items (pieces) of the queue."""
    pieces = [known.ready.popitem(last=False)[1] for _ in range(count)]
    return [item for items in pieces for item in items]


def _must_throttle_residuals(
    state: SchedulerState, stage: StageState, queue: list[list[Work]]
) -> bool:
    """Returns whether residuals must wait because a busy consumer has a large backlog."""
    stage.throttled = (
        stage.spec.splittable
        and state.phase is Phase.RUNNING
        and all(work.residual for items in queue for work in items)
        and any(
            consumer.open and consumer.waiting_bytes > state.limits.backlog_bytes
            for consumer in find_consumer_stages(state, stage)
        )
    )
    return stage.throttled


def find_consumer_stages(state: SchedulerState, stage: StageState) -> Iterator[StageState]:
    """Yields the stages that read an output of the stage as their main input."""
    for name in stage.spec.outputs:
        for number in state.collections[name].node.consumers:
            yield state.stages[number]


def find_producer_stages(state: SchedulerState, stage: StageState) -> Iterator[StageState]:
    """Yields the stages that write a main input of the stage."""
    for name in stage.spec.inputs:
        for number in state.collections[name].node.producers:
            if number >= 0:
                yield state.stages[number]
