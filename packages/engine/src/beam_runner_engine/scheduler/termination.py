"""Termination of a job: all stages are complete, or no work can proceed."""

from __future__ import annotations

from beam_runner_model.failures import JobFailureKind
from beam_runner_model.rendering import render_waits
from beam_runner_model.times import MAX_TIMESTAMP

from beam_runner_engine.scheduler.bundles import fail_job, open_bundles
from beam_runner_engine.scheduler.commands import FinishJob, Outcome, ReleaseState
from beam_runner_engine.scheduler.reports import list_wait_reasons
from beam_runner_engine.scheduler.section_bundles import is_held_by_section, open_or_refuse_section
from beam_runner_engine.scheduler.state import SchedulerState, StageState
from beam_runner_engine.scheduler.teststream import have_test_streams_ended, take_test_stream_step
from beam_runner_engine.scheduler.transitions import Phase
from beam_runner_engine.scheduler.watermarks import propagate_watermarks


def apply_event_consequences(state: SchedulerState) -> None:
    """Applies all consequences of an event: watermarks, new bundles, TestStream steps and the end
    of the job.

    The cost depends on the affected stages only.
    """
    while state.running:
        propagate_watermarks(state)
        _check_changed_stages(state)
        if state.bundles:
            return
        if not state.incomplete and have_test_streams_ended(state):
            _finish_job(state)
        elif state.held:
            # Don't fail the job as stuck, because the only remaining work can belong to stages that
            # the caller holds (pauses).
            return
        elif not take_test_stream_step(state):
            if state.clock_wakes:
                return
            reason = f"the job is stuck and can't make progress: {render_waits(list_wait_reasons(state))}"
            fail_job(state, reason, JobFailureKind.STUCK)


def _check_changed_stages(state: SchedulerState) -> None:
    while state.touched:
        touched, state.touched = sorted(state.touched), {}
        for number in touched:
            _check_stage(state, state.stages[number])


def _check_stage(state: SchedulerState, stage: StageState) -> None:
    if stage.section is not None:
        open_or_refuse_section(state, stage.section)
    if stage.number not in state.held and not is_held_by_section(state, stage):
        open_bundles(state, stage)
    if not stage.complete and _is_stage_complete(stage):
        stage.complete = True
        state.incomplete -= 1
        if stage.spec.is_keyed and stage.shards:
            state.commands.append(ReleaseState(stage.spec.name))


def _is_stage_complete(stage: StageState) -> bool:
    """Returns whether a stage can't produce output any more."""
    return stage.output == MAX_TIMESTAMP and not (stage.work or stage.open or stage.waking)


def _finish_job(state: SchedulerState) -> None:
    draining = state.phase is Phase.DRAINING
    state.phase = Phase.DRAINED if draining else Phase.DONE
    state.commands.append(FinishJob(Outcome.DRAINED if draining else Outcome.DONE))
