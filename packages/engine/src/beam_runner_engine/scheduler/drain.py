"""Drain and cancellation of a job. A drain ends the sources and processes the data that they
already emitted.
"""

from __future__ import annotations

from beam_runner_engine.scheduler.bundles import cancel_bundles, resume_bundle
from beam_runner_engine.scheduler.checkpoints import can_split_bundle, request_split
from beam_runner_engine.scheduler.commands import FinishJob, Outcome
from beam_runner_engine.scheduler.delivery import mark_shard_for_bundle_check
from beam_runner_engine.scheduler.holding import pause_stages
from beam_runner_engine.scheduler.splits import must_checkpoint_bundle
from beam_runner_engine.scheduler.state import SchedulerState
from beam_runner_engine.scheduler.teststream import end_test_stream
from beam_runner_engine.scheduler.transitions import Phase
from beam_runner_engine.scheduler.wakeups import resume_delayed_work


def start_drain(state: SchedulerState) -> None:
    """Starts a drain: ends all sources and lets all windows close.

    TestStreams end at their current step. Pending and delayed restrictions are truncated when a
    bundle takes them. Running bundles get a checkpoint request, and their residuals are truncated.
    A restriction whose second part was returned is not truncated (see `Input.whole`), so the output
    of a source covers a prefix of each restriction. Held stages are released, and pauses before
    retries end. All watermarks then advance to the maximum timestamp.
    """
    state.phase = Phase.DRAINING
    pause_stages(state, ())
    for number, script in enumerate(state.scripts):
        if not script.ended:
            end_test_stream(state, number)
    for stage in state.stages:
        resume_delayed_work(state, stage)
        if stage.throttled:
            mark_shard_for_bundle_check(state, stage, None)
    for record in tuple(state.bundles.values()):
        stage = state.stages[record.stage]
        if record.due is not None:
            resume_bundle(state, record)
        elif (
            record.split is None
            and can_split_bundle(stage, record)
            and must_checkpoint_bundle(state, stage, record)
        ):
            request_split(state, record, 0.0)


def cancel_job(state: SchedulerState) -> None:
    """Cancels the job and its running bundles immediately."""
    state.phase = Phase.CANCELLED
    cancel_bundles(state)
    state.commands.append(FinishJob(Outcome.CANCELLED))
