"""How watermarks advance, from stage to stage and only where something has changed.

For each stage, all in ms and never back:

- upstream: the earliest watermark of its input collections;
- input: the earliest of upstream and the event times of all its work;
- output: the earliest of upstream and all that holds it: work at its own time, residuals at what
  their watermark estimator reported, shards at the holds of their summary.

So the output watermark of a stage that reads a source may be beyond its input watermark, which the
source's element holds: the estimator knows better.
"""

from __future__ import annotations

from heapq import heappop, heappush

from beam_runner_model.times import MAX_TIMESTAMP, Timestamp

from beam_runner_engine.scheduler.delivery import look_at, unblock
from beam_runner_engine.scheduler.side_inputs import expire, pop_readable
from beam_runner_engine.scheduler.state import CollectionState, SchedulerState, StageState


def refresh(state: SchedulerState, stage: StageState) -> None:
    """Has the stage's watermarks computed again by `propagate`."""
    heappush(state.stale, stage.number)
    state.touched[stage.number] = None


def set_producer(
    state: SchedulerState, collection: CollectionState, producer: int, watermark: Timestamp
) -> None:
    """Notes a producer's watermark and tells the readers of the collection if that changes its own."""
    collection.producers.put(producer, watermark)
    earliest = collection.producers.min()
    if earliest <= collection.watermark:
        return
    collection.watermark = earliest
    for number in collection.node.consumers:
        stage = state.stages[number]
        stage.upstream.put(collection.node.name, earliest)
        refresh(state, stage)
    for number, place in collection.node.side_consumers:
        stage = state.stages[number]
        unblock(state, stage, pop_readable(stage.sides[place], earliest))
        if stage.section is not None:
            state.touched[number] = None


def propagate(state: SchedulerState) -> None:
    """Advances the watermarks of all stages that were to be refreshed and of those they feed.

    Stages come in the order of the graph, so each is computed once.
    """
    stale = state.stale
    while stale:
        number = heappop(stale)
        while stale and stale[0] == number:
            heappop(stale)
        _advance(state, state.stages[number])


def _advance(state: SchedulerState, stage: StageState) -> None:
    upstream = stage.upstream.min()
    if upstream > stage.seen_upstream:
        stage.seen_upstream = upstream
        for shard in stage.event_wakes.pop_due(upstream):
            look_at(state, stage, shard)
        if stage.spec.whole_input and upstream == MAX_TIMESTAMP:
            for key in stage.shards:
                look_at(state, stage, key)
    new_input = min(upstream, stage.times.min())
    if new_input > stage.input:
        stage.input = new_input
        expire(state, stage)
    new_output = min(upstream, stage.holds.min())
    if new_output > stage.output:
        stage.output = new_output
        for name in stage.spec.outputs:
            set_producer(state, state.collections[name], stage.number, new_output)
