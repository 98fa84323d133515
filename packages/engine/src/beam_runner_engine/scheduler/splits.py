"""Splits of running bundles: asked for by the policy as progress is reported, and by a drain."""

from __future__ import annotations

import attrs

from beam_runner_engine.scheduler.commands import Input, SplitBundle
from beam_runner_engine.scheduler.delivery import new_work, remove_work
from beam_runner_engine.scheduler.events import Progress, SplitDone
from beam_runner_engine.scheduler.pieces import drop_use
from beam_runner_engine.scheduler.policy import Load, RunningBundle
from beam_runner_engine.scheduler.residuals import piece_of, take_back
from beam_runner_engine.scheduler.state import BundleRecord, SchedulerState, StageState, Work
from beam_runner_engine.scheduler.transitions import BundleState, Phase
from beam_runner_engine.scheduler.watermarks import refresh
from beam_runner_engine.values.times import Timestamp


def can_split(stage: StageState) -> bool:
    """Whether running bundles of a stage may be split: those of shards and whole sections may not."""
    return not stage.spec.keyed and not stage.spec.whole_input


def note_progress(state: SchedulerState, event: Progress) -> None:
    """Notes a bundle's progress and asks for a split if the policy wants one."""
    record = state.bundles[event.bundle]
    stage = state.stages[record.stage]
    before, record.progress = record.progress, event
    stalled = before is not None and event.fraction <= before.fraction
    record.stalled = record.stalled + 1 if stalled else 0
    if not can_split(stage):
        return
    if must_checkpoint(state, stage, record):
        ask(state, record, 0.0)
        return
    running = RunningBundle(
        stage=stage.spec.name,
        fraction=event.fraction,
        elapsed=event.elapsed,
        stalled=record.stalled,
        splittable=stage.spec.splittable,
    )
    load = Load(open=len(state.bundles), parallelism=state.limits.parallelism)
    fraction = state.policy.dynamic_split(running, load)
    if fraction is not None:
        ask(state, record, fraction)


def must_checkpoint(state: SchedulerState, stage: StageState, record: BundleRecord) -> bool:
    """Whether a bundle must hand back its restrictions, to be truncated because the job drains."""
    return state.phase is Phase.DRAINING and stage.spec.splittable and not record.truncated


def ask(state: SchedulerState, record: BundleRecord, fraction: float) -> None:
    """Asks for the split of a running bundle."""
    record.state = BundleState.SPLITTING
    state.commands.append(SplitBundle(record.bundle.number, record.bundle.attempt, fraction))


def take_split(state: SchedulerState, event: SplitDone) -> None:
    """Leaves the bundle its primary part, which is what another attempt would do too, and makes the
    residuals work of the stage.
    """
    record = state.bundles[event.bundle]
    record.state = BundleState.RUNNING
    record.stalled = 0
    if not event.residuals:
        return
    stage = state.stages[record.stage]
    before = record.work
    origins = tuple(dict.fromkeys(work.piece for work in before))
    take_back(state, stage, record, event.residuals, origins)
    primary = [
        work
        for part in event.primary
        for work in _primary_work(state, stage, record, part, origins)
    ]
    for work in before:
        remove_work(state, stage, work)
    record.work = primary
    record.bundle = attrs.evolve(record.bundle, inputs=event.primary)
    refresh(state, stage)


def _primary_work(
    state: SchedulerState,
    stage: StageState,
    record: BundleRecord,
    part: Input,
    origins: tuple[int, ...],
) -> list[Work]:
    piece = piece_of(state, record, part.data, origins)
    work = new_work(
        state,
        stage,
        piece,
        part.data.facts.windows if part.windows is None else part.windows,
        watermark=_watermark_of(record.work, part),
        estimator_state=part.estimator_state,
        residual=any(item.residual for item in record.work),
        truncated=record.truncated,
    )
    drop_use(state, piece)
    return work


def _watermark_of(before: list[Work], part: Input) -> Timestamp | None:
    """Returns the estimator's watermark (ms) of what a primary part was cut from, None without one.

    Where the part is not told by its data, the earliest of the bundle is the safe answer.
    """
    same = [work for work in before if work.data == part.data] or before
    watermarks = [work.watermark for work in same if work.watermark is not None]
    return min(watermarks) if len(watermarks) == len(same) else None
