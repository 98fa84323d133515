"""The life of a bundle: opened, committed or failed, tried again, given up."""

from __future__ import annotations

from beam_runner_model.failures import EndingKind
from beam_runner_model.summary import ShardSummary
from beam_runner_model.times import Duration

from beam_runner_engine.scheduler.attempts import begin_attempt, lose_attempt, open_bundle
from beam_runner_engine.scheduler.checkpoints import ask_soon, forget_update, is_outdated
from beam_runner_engine.scheduler.commands import (
    CancelBundles,
    FailJob,
    FinalizeBundles,
    OpenBundles,
)
from beam_runner_engine.scheduler.delivery import deliver, look_at, remove_work
from beam_runner_engine.scheduler.events import BundleDone, BundleFailed
from beam_runner_engine.scheduler.readiness import openings, producers
from beam_runner_engine.scheduler.residuals import take_back
from beam_runner_engine.scheduler.retries import is_last, note_failure, pause_after
from beam_runner_engine.scheduler.side_inputs import give_back, make_room
from beam_runner_engine.scheduler.state import RETRY, BundleRecord, SchedulerState, StageState
from beam_runner_engine.scheduler.transitions import Phase
from beam_runner_engine.scheduler.wakeups import set_wakes, wants_waking
from beam_runner_engine.scheduler.watermarks import refresh


def open_bundles(state: SchedulerState, stage: StageState) -> None:
    """Opens all bundles of a stage that can be opened."""
    bundles = tuple(open_bundle(state, stage, opening) for opening in openings(state, stage))
    if bundles:
        state.commands.append(OpenBundles(stage.spec.name, bundles))


def commit(state: SchedulerState, event: BundleDone) -> None:
    """Closes a bundle and gives its outputs, residuals and shard summary to those they concern."""
    record = state.bundles.pop(event.bundle)
    stage = state.stages[record.stage]
    shard = record.bundle.shard
    stage.open -= 1
    stage.running -= len(record.work)
    stage.shards[shard].open -= 1
    if not stage.spec.joint_shards:
        # Of joint shards the first may have been given away, and then its time has not come.
        stage.shards[shard].watermark = record.bundle.end_watermark
    if shard is not None:
        assert event.summary is not None
        _replace_summary(state, stage, shard, event.summary)
    take_back(state, stage, record, event.residuals)
    hand_on(state, event)
    for work in record.work:
        remove_work(state, stage, work)
    give_back(state, record.views)
    forget_update(state, stage, event.bundle)
    look_at(state, stage, shard)
    has_caught_up(state, stage)
    if event.finalize:
        state.commands.append(FinalizeBundles((event.bundle,)))


def hand_on(state: SchedulerState, event: BundleDone) -> None:
    """Gives the outputs of a bundle to those who read them."""
    make_room(state, event.outputs)
    for output in event.outputs:
        deliver(state, output.collection, output.data)


def has_caught_up(state: SchedulerState, stage: StageState) -> None:
    """A stage has less before it than it had: its producers that wait for that go on, and its watermarks."""
    for producer in producers(state, stage):
        if producer.throttled:
            look_at(state, producer, None)
    refresh(state, stage)


def _replace_summary(
    state: SchedulerState, stage: StageState, shard: int, summary: ShardSummary
) -> None:
    known = stage.shards[shard]
    before, known.summary = known.summary, summary
    for time, count in summary.holds:
        stage.holds.add(time, count)
    for time, count in before.holds:
        stage.holds.remove(time, count)
    stage.waking += wants_waking(summary) - wants_waking(before)
    set_wakes(state, stage, shard, summary)


def fail(state: SchedulerState, event: BundleFailed) -> None:
    """Tries a bundle again, at once or after a pause, or fails the job; `retries` has the rules."""
    record = state.bundles[event.bundle]
    note_failure(record, event, state.now)
    if is_last(state, record.failures):
        _give_up(state, record, event)
        return
    lose_attempt(record)
    pause = pause_after(state, record.failures)
    if pause:
        _pause(state, record, pause)
    else:
        begin_attempt(state, record)


def _pause(state: SchedulerState, record: BundleRecord, pause: Duration) -> None:
    number = record.bundle.number
    record.due = state.now + pause
    state.clock_wakes.put((record.stage, RETRY, number), record.due)
    for stage in stages_of(state, record):
        stage.paused += 1
        forget_update(state, stage, number)
    state.paused += 1


def reopen(state: SchedulerState, record: BundleRecord) -> None:
    """Ends the pause of a bundle: its next attempt begins."""
    record.due = None
    state.clock_wakes.put((record.stage, RETRY, record.bundle.number), None)
    for stage in stages_of(state, record):
        stage.paused -= 1
    state.paused -= 1
    begin_attempt(state, record)
    if is_outdated(record):
        ask_soon(state, state.stages[record.stage], record, state.now)


def stages_of(state: SchedulerState, record: BundleRecord) -> list[StageState]:
    """Returns the stages of a bundle: one, or all stages of a section."""
    numbers = [part.stage for part in record.parts] or [record.stage]
    return [state.stages[number] for number in numbers]


def _give_up(state: SchedulerState, record: BundleRecord, event: BundleFailed) -> None:
    stage = state.stages[record.stage].spec.name
    what = f"stage {stage!r}"
    if record.bundle.shard is not None:
        what += f", shard {record.bundle.shard}"
    if record.parts:
        last = state.stages[record.parts[-1].stage].spec.name
        what = f"the section of the stages {stage!r} to {last!r}"
    attempts = _attempts(record)
    tried = "1 attempt" if attempts == 1 else f"{attempts} attempts"
    causes = (*record.outside_failures, *record.user_failures)
    fail_job(
        state,
        f"{what} failed after {tried}, by {event.kind.value}: {event.cause}",
        EndingKind.BUNDLE,
        stage,
        causes or (event.cause,),
        record,
    )


def _attempts(record: BundleRecord) -> int:
    return record.failures.attempts or record.failures.outages


def fail_job(
    state: SchedulerState,
    reason: str,
    kind: EndingKind,
    stage: str | None = None,
    causes: tuple[str, ...] = (),
    culprit: BundleRecord | None = None,
) -> None:
    """Ends the job as failed and stops what runs; `culprit` is the bundle that failed it, if one did."""
    state.phase = Phase.FAILED
    stop_bundles(state, culprit)
    attempts = 0 if culprit is None else _attempts(culprit)
    state.commands.append(FailJob(reason, stage, causes, attempts, kind))


def stop_bundles(state: SchedulerState, ended: BundleRecord | None = None) -> None:
    """Stops all running bundles; the latest attempt at `ended` doesn't run any more.

    The records stay: with their work the state is whole, and a savepoint can be made of it.
    """
    running = tuple(
        (number, record.bundle.attempt)
        for number, record in state.bundles.items()
        if record.due is None and record is not ended
    )
    if running:
        state.commands.append(CancelBundles(running))
