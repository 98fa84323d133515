"""Which bundles can be opened: by data, watermark, processing time, side inputs and key shard."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, islice

import attrs
from beam_runner_model.times import MAX_TIMESTAMP, Timestamp

from beam_runner_engine.scheduler.splits import initial_split
from beam_runner_engine.scheduler.state import SchedulerState, ShardState, StageState, Work
from beam_runner_engine.scheduler.transitions import Phase
from beam_runner_engine.scheduler.wakeups import is_due

_MOST_LOOKED_AT = 1_000
"""How many pieces of a queue are cut into bundles at a time, so that a long one costs no more."""


@attrs.frozen
class Opening:
    """A bundle to be opened: the work of a shard, and the watermark (ms) the shard will then be at.

    Of joint shards it has the work of several, and `shard` is the first.
    """

    shard: int | None
    work: list[Work]
    end_watermark: Timestamp


def openings(state: SchedulerState, stage: StageState) -> Iterator[Opening]:
    """Yields the bundles of a stage that can be opened now, and takes their work from the queues.

    Looks only at shards that something has happened to.
    """
    found = _openings_by_shard(state, stage)
    return _joined(found, state.limits.joint_bytes) if stage.spec.joint_shards else found


def _openings_by_shard(state: SchedulerState, stage: StageState) -> Iterator[Opening]:
    candidates, stage.candidates = stage.candidates, {}
    for shard in candidates:
        known = stage.shards[shard]
        if stage.spec.whole_input and (known.blocked or stage.seen_upstream < MAX_TIMESTAMP):
            continue
        if stage.spec.keyed:
            yield from _keyed_opening(state, stage, shard, known)
        else:
            yield from _ordinary_openings(state, stage, known)


def _joined(openings: Iterable[Opening], most_bytes: int) -> Iterator[Opening]:
    """Fills bundles with whole shards, in their order, up to the limit for bundles of several."""
    joint: Opening | None = None
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


def _keyed_opening(
    state: SchedulerState, stage: StageState, shard: int | None, known: ShardState
) -> Iterator[Opening]:
    if known.open:
        return
    watermark = min(stage.seen_upstream, known.blocked.min())
    if known.ready or is_due(known, watermark, state.now):
        yield Opening(shard, _take(known, len(known.ready)), max(watermark, known.watermark))


def _ordinary_openings(
    state: SchedulerState, stage: StageState, known: ShardState
) -> Iterator[Opening]:
    queue = list(islice(known.ready.values(), _MOST_LOOKED_AT))
    if not queue or _must_wait(state, stage, queue):
        return
    if stage.spec.whole_input:
        yield Opening(None, _take(known, len(known.ready)), stage.input)
        return
    if stage.open >= state.limits.bundles_per_stage:
        return
    if stage.spec.joint_pieces and _can_share(queue, state.limits.joint_bytes):
        yield Opening(None, _take(known, len(queue)), stage.input)
        return
    for alike in _alike(state, queue):
        most = state.limits.bundles_per_stage - stage.open
        if most < 1:
            return
        counts = initial_split(state, stage, [items[0].data.facts for items in alike], most)
        for count in counts:
            yield Opening(None, _take(known, count), stage.input)
        if sum(counts) < len(alike):
            return


def _alike(state: SchedulerState, queue: list[list[Work]]) -> Iterator[list[list[Work]]]:
    """Cuts a queue where pieces that a drain would truncate meet such that it would not.

    They have no bundle in common: the host could not tell what a restriction that defers itself was cut
    from. In a drain all that comes into a bundle is alike.
    """
    if state.phase is not Phase.RUNNING:
        yield queue
        return
    for _, pieces in groupby(queue, lambda items: items[0].truncated):
        yield list(pieces)


def _can_share(queue: list[list[Work]], most_bytes: int) -> bool:
    """Whether pieces may have one bundle: little that no other bundle has given away."""
    size = sum(items[0].data.facts.size for items in queue)
    return size <= most_bytes and not any(work.residual for items in queue for work in items)


def _take(known: ShardState, count: int) -> list[Work]:
    """Takes the work on the first pieces of data out of the queue."""
    pieces = [known.ready.popitem(last=False)[1] for _ in range(count)]
    return [item for items in pieces for item in items]


def _must_wait(state: SchedulerState, stage: StageState, queue: list[list[Work]]) -> bool:
    """Whether residuals have to wait for a busy consumer, so that it does not drown in data."""
    stage.throttled = (
        stage.spec.splittable
        and state.phase is Phase.RUNNING
        and all(work.residual for items in queue for work in items)
        and any(
            consumer.open and consumer.waiting_bytes > state.limits.backlog_bytes
            for consumer in consumers(state, stage)
        )
    )
    return stage.throttled


def consumers(state: SchedulerState, stage: StageState) -> Iterator[StageState]:
    """Yields the stages that read the outputs of a stage as their main input."""
    for name in stage.spec.outputs:
        for number in state.collections[name].node.consumers:
            yield state.stages[number]


def producers(state: SchedulerState, stage: StageState) -> Iterator[StageState]:
    """Yields the stages that write the main inputs of a stage."""
    for name in stage.spec.inputs:
        for number in state.collections[name].node.producers:
            if number >= 0:
                yield state.stages[number]
