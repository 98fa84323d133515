"""Processing time of the scheduler, which advances only by `Tick` events and starts work that is due."""

from __future__ import annotations

from beam_runner_model.times import Timestamp

from beam_runner_engine.scheduler.bundles import resume_bundle
from beam_runner_engine.scheduler.checkpoints import request_checkpoint
from beam_runner_engine.scheduler.delivery import mark_shard_for_bundle_check, queue_pending_work
from beam_runner_engine.scheduler.state import BUNDLE, RETRY, SHARD, SchedulerState


def advance_clock(state: SchedulerState, now: Timestamp) -> None:
    """Advances processing time to `now` (ms), and starts all work that is due; ignores an earlier time."""
    if now <= state.now:
        return
    state.now = now
    for number, what, key in state.clock_wakes.pop_due_keys(now):
        stage = state.stages[number]
        if what == SHARD:
            mark_shard_for_bundle_check(state, stage, key)
        elif what == BUNDLE:
            request_checkpoint(state, key)
        elif what == RETRY:
            resume_bundle(state, state.bundles[key])
        else:
            queue_pending_work(state, stage, stage.delayed.pop(key))
