"""Ends that are asked for: drain, which lets sources end and the rest be processed, and cancel."""

from __future__ import annotations

from beam_runner_engine.scheduler.bundles import reopen, stop_bundles
from beam_runner_engine.scheduler.checkpoints import ask, can_split
from beam_runner_engine.scheduler.commands import FinishJob, Outcome
from beam_runner_engine.scheduler.delivery import look_at
from beam_runner_engine.scheduler.splits import must_checkpoint
from beam_runner_engine.scheduler.state import SchedulerState
from beam_runner_engine.scheduler.teststream import end_script
from beam_runner_engine.scheduler.transitions import Phase
from beam_runner_engine.scheduler.wakeups import resume_all


def drain(state: SchedulerState) -> None:
    """Lets all sources end.

    TestStreams end where they are. Restrictions are truncated: those that wait, or resume later,
    when they come into a bundle; running bundles are asked for a checkpoint, whose residuals are
    truncated in turn. Restrictions whose second part was handed back are left as they are, see
    `Input.whole`: what a source has given is a prefix of each restriction. Pauses before another
    attempt end. Watermarks then go to the end of time by themselves, and all windows close.
    """
    state.phase = Phase.DRAINING
    for number, script in enumerate(state.scripts):
        if not script.ended:
            end_script(state, number)
    for stage in state.stages:
        resume_all(state, stage)
        if stage.throttled:
            look_at(state, stage, None)
    for record in tuple(state.bundles.values()):
        stage = state.stages[record.stage]
        if record.due is not None:
            reopen(state, record)
        elif (
            record.split is None
            and can_split(stage, record)
            and must_checkpoint(state, stage, record)
        ):
            ask(state, record, 0.0)


def cancel(state: SchedulerState) -> None:
    """Ends the job at once, as cancelled."""
    state.phase = Phase.CANCELLED
    stop_bundles(state)
    state.commands.append(FinishJob(Outcome.CANCELLED))
