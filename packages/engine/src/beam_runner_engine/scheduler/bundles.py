"""Lifecycle of a bundle: opening, commit, failure, retry and permanent failure."""

from __future__ import annotations

from beam_runner_model.failures import JobFailureKind
from beam_runner_model.summary import ShardSummary
from beam_runner_model.times import Duration

from beam_runner_engine.scheduler.attempts import discard_attempt, open_bundle, start_attempt
from beam_runner_engine.scheduler.checkpoints import (
    cancel_checkpoint_request,
    reads_outdated_side_input,
    schedule_checkpoint,
)
from beam_runner_engine.scheduler.commands import (
    CancelBundles,
    FailJob,
    FinalizeBundles,
    OpenBundles,
)
from beam_runner_engine.scheduler.delivery import (
    deliver_data,
    mark_shard_for_bundle_check,
    remove_pending_work,
)
from beam_runner_engine.scheduler.events import BundleDone, BundleFailed
from beam_runner_engine.scheduler.readiness import find_openable_bundles, find_producer_stages
from beam_runner_engine.scheduler.residuals import requeue_residuals
from beam_runner_engine.scheduler.retries import (
    compute_retry_pause,
    is_final_failure,
    record_failure,
)
from beam_runner_engine.scheduler.side_inputs import drop_replaced_data, release_side_input_views
from beam_runner_engine.scheduler.state import RETRY, BundleRecord, SchedulerState, StageState
from beam_runner_engine.scheduler.transitions import Phase
from beam_runner_engine.scheduler.wakeups import has_pending_wake_up, set_shard_wake_ups
from beam_runner_engine.scheduler.watermarks import mark_watermarks_stale


def open_bundles(state: SchedulerState, stage: StageState) -> None:
    """Opens all bundles of a stage that can be opened now."""
    bundles = tuple(
        open_bundle(state, stage, opening) for opening in find_openable_bundles(state, stage)
    )
    if bundles:
        state.commands.append(OpenBundles(stage.spec.name, bundles))


def commit_bundle(state: SchedulerState, event: BundleDone) -> None:
    """Closes a committed bundle, and applies its outputs, its residuals, and the new summary (holds
    and timers) of its key shard.
    """
    record = state.bundles.pop(event.bundle)
    stage = state.stages[record.stage]
    shard = record.bundle.shard
    stage.open -= 1
    stage.running -= len(record.work)
    stage.shards[shard].open -= 1
    if not stage.spec.joint_shards:
        # A bundle of joint shards (several small key shards) can have returned its first shard as a
        # residual. The returned shard has not reached the watermark of the other shards.
        stage.shards[shard].watermark = record.bundle.end_watermark
    if shard is not None:
        assert event.summary is not None
        replace_shard_summary(state, stage, shard, event.summary)
    requeue_residuals(state, stage, record, event.residuals)
    deliver_outputs(state, event)
    for work in record.work:
        remove_pending_work(state, stage, work)
    release_side_input_views(state, record.views)
    cancel_checkpoint_request(state, stage, event.bundle)
    mark_shard_for_bundle_check(state, stage, shard)
    resume_throttled_producers(state, stage)
    if event.finalize:
        state.commands.append(FinalizeBundles((event.bundle,)))


def deliver_outputs(state: SchedulerState, event: BundleDone) -> None:
    """Delivers the outputs of a bundle to the stages that read these collections."""
    drop_replaced_data(state, event.outputs)
    for output in event.outputs:
        deliver_data(state, output.collection, output.data)


def resume_throttled_producers(state: SchedulerState, stage: StageState) -> None:
    """Resumes sources that wait because the backlog of a stage was too large, and refreshes
    watermarks, after the stage finished work.
    """
    for producer in find_producer_stages(state, stage):
        if producer.throttled:
            mark_shard_for_bundle_check(state, producer, None)
    mark_watermarks_stale(state, stage)


def replace_shard_summary(
    state: SchedulerState, stage: StageState, shard: int, summary: ShardSummary
) -> None:
    """Replaces the summary of a key shard: the shard's watermark holds and wake-up times."""
    known = stage.shards[shard]
    before, known.summary = known.summary, summary
    for time, count in summary.holds:
        stage.holds.add_time(time, count)
    for time, count in before.holds:
        stage.holds.remove_time(time, count)
    stage.waking += has_pending_wake_up(summary) - has_pending_wake_up(before)
    set_shard_wake_ups(state, stage, shard, summary)


def fail_bundle(state: SchedulerState, event: BundleFailed) -> None:
    """Retries a failed bundle, immediately or after a pause, or fails the job. See the rules in
    `retries`.
    """
    record = state.bundles[event.bundle]
    record_failure(record, event, state.now)
    if is_final_failure(state, record.failures):
        _fail_job_for_bundle(state, record, event)
        return
    discard_attempt(record)
    pause = compute_retry_pause(state, record.failures)
    if pause:
        _pause_bundle(state, record, pause)
    else:
        start_attempt(state, record)


def _pause_bundle(state: SchedulerState, record: BundleRecord, pause: Duration) -> None:
    number = record.bundle.number
    record.due = state.now + pause
    state.clock_wakes.set_time((record.stage, RETRY, number), record.due)
    for stage in get_bundle_stages(state, record):
        stage.paused += 1
        cancel_checkpoint_request(state, stage, number)
    state.paused += 1


def resume_bundle(state: SchedulerState, record: BundleRecord) -> None:
    """Starts the next attempt at a bundle after the pause between attempts."""
    record.due = None
    state.clock_wakes.set_time((record.stage, RETRY, record.bundle.number), None)
    for stage in get_bundle_stages(state, record):
        stage.paused -= 1
    state.paused -= 1
    start_attempt(state, record)
    if reads_outdated_side_input(record):
        schedule_checkpoint(state, state.stages[record.stage], record, state.now)


def get_bundle_stages(state: SchedulerState, record: BundleRecord) -> list[StageState]:
    """Returns the stages of a bundle: a single stage, or all stages of a section."""
    numbers = [part.stage for part in record.parts] or [record.stage]
    return [state.stages[number] for number in numbers]


def _fail_job_for_bundle(state: SchedulerState, record: BundleRecord, event: BundleFailed) -> None:
    stage = state.stages[record.stage].spec.name
    what = f"stage {stage!r}"
    if record.bundle.shard is not None:
        what += f" (shard {record.bundle.shard})"
    if record.parts:
        last = state.stages[record.parts[-1].stage].spec.name
        what = f"the section of stages {stage!r} to {last!r}"
    attempts = _count_attempts(record)
    tried = "1 attempt" if attempts == 1 else f"{attempts} attempts"
    causes = (*record.outside_failures, *record.user_failures)
    fail_job(
        state,
        f"{what} failed after {tried} ({event.kind.value}): {event.cause}",
        JobFailureKind.BUNDLE,
        stage,
        causes or (event.cause,),
        record,
    )


def _count_attempts(record: BundleRecord) -> int:
    return record.failures.attempts or record.failures.outages


def fail_job(
    state: SchedulerState,
    reason: str,
    kind: JobFailureKind,
    stage: str | None = None,
    causes: tuple[str, ...] = (),
    culprit: BundleRecord | None = None,
) -> None:
    """Fails the job and cancels its running bundles. `culprit` is the bundle that caused the
    failure, if any.
    """
    state.phase = Phase.FAILED
    cancel_bundles(state, culprit)
    attempts = 0 if culprit is None else _count_attempts(culprit)
    state.commands.append(FailJob(reason, stage, causes, attempts, kind))


def cancel_bundles(state: SchedulerState, ended: BundleRecord | None = None) -> None:
    """Cancels all running bundles except `ended`, whose latest attempt has already ended.

    The bundle records remain, so that the state is complete and can be saved as a savepoint.
    """
    running = tuple(
        (number, record.bundle.attempt)
        for number, record in state.bundles.items()
        if record.due is None and record is not ended
    )
    if running:
        state.commands.append(CancelBundles(running))
