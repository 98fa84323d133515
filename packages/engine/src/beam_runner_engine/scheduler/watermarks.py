"""Propagation of watermarks through the stages that an event affects.

Each stage has three watermarks in ms, which never decrease:

- upstream: the minimum watermark of its input collections;
- input: the minimum of upstream and the event times of all its work;
- output: the minimum of upstream and all holds. Work holds its event time, residuals hold the
  watermark that their watermark estimator reported, and key shards hold the times in their
  summaries.

The output watermark of a source stage can exceed its input watermark, because the source's element
holds the input watermark and the estimator reports a later watermark for the outputs.
"""

from __future__ import annotations

from heapq import heappop, heappush

from beam_runner_model.times import MAX_TIMESTAMP, Timestamp

from beam_runner_engine.scheduler.delivery import mark_shard_for_bundle_check, queue_unblocked_work
from beam_runner_engine.scheduler.side_inputs import drop_expired_windows, pop_readable_work
from beam_runner_engine.scheduler.state import CollectionState, SchedulerState, StageState


def mark_watermarks_stale(state: SchedulerState, stage: StageState) -> None:
    """Marks the watermarks of a stage for recomputation by `propagate_watermarks`."""
    heappush(state.stale, stage.number)
    state.touched[stage.number] = None


def set_producer_watermark(
    state: SchedulerState, collection: CollectionState, producer: int, watermark: Timestamp
) -> None:
    """Sets the watermark of a producer, and updates the readers if the collection's watermark
    advances.
    """
    collection.producers.set_time(producer, watermark)
    earliest = collection.producers.get_earliest_time()
    if earliest <= collection.watermark:
        return
    collection.watermark = earliest
    for number in collection.node.consumers:
        stage = state.stages[number]
        stage.upstream.set_time(collection.node.name, earliest)
        mark_watermarks_stale(state, stage)
    for number, place in collection.node.side_consumers:
        stage = state.stages[number]
        queue_unblocked_work(state, stage, pop_readable_work(stage.sides[place], earliest))
        if stage.section is not None:
            state.touched[number] = None


def propagate_watermarks(state: SchedulerState) -> None:
    """Recomputes the watermarks of all marked stages and of the stages downstream.

    Stages are processed in graph order, so each stage is computed once.
    """
    stale = state.stale
    while stale:
        number = heappop(stale)
        while stale and stale[0] == number:
            heappop(stale)
        _advance_stage_watermarks(state, state.stages[number])


def _advance_stage_watermarks(state: SchedulerState, stage: StageState) -> None:
    upstream = stage.upstream.get_earliest_time()
    if upstream > stage.seen_upstream:
        stage.seen_upstream = upstream
        for shard in stage.event_wakes.pop_due_keys(upstream):
            mark_shard_for_bundle_check(state, stage, shard)
        if stage.spec.whole_input and upstream == MAX_TIMESTAMP:
            for key in stage.shards:
                mark_shard_for_bundle_check(state, stage, key)
    new_input = min(upstream, stage.times.get_earliest_time())
    if new_input > stage.input:
        stage.input = new_input
        drop_expired_windows(state, stage)
    new_output = min(upstream, stage.holds.get_earliest_time())
    if new_output > stage.output:
        stage.output = new_output
        for name in stage.spec.outputs:
            set_producer_watermark(state, state.collections[name], stage.number, new_output)
