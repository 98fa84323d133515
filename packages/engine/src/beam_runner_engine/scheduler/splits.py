"""Splits of pending work and of running bundles, because of the policy, a drain, a hold, or bundles
that wait for a slot.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from beam_runner_model.facts import DataStatistics
from beam_runner_model.times import Timestamp

from beam_runner_engine.scheduler.checkpoints import (
    can_split_bundle,
    reads_outdated_side_input,
    request_split,
)
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.delivery import create_pending_work, remove_pending_work
from beam_runner_engine.scheduler.errors import HostCodeError
from beam_runner_engine.scheduler.events import Progress, SplitDone, YieldRequested
from beam_runner_engine.scheduler.holding import must_checkpoint_for_pause
from beam_runner_engine.scheduler.pieces import drop_data_piece_reference
from beam_runner_engine.scheduler.policy import Load, RunningBundle
from beam_runner_engine.scheduler.residuals import (
    get_data_piece_number,
    map_bundle_data_to_pieces,
    requeue_residuals,
)
from beam_runner_engine.scheduler.state import BundleRecord, SchedulerState, StageState, Work
from beam_runner_engine.scheduler.transitions import Phase
from beam_runner_engine.scheduler.watermarks import mark_watermarks_stale

_POLICY = "the splitting policy for a bundle"


def record_progress(state: SchedulerState, event: Progress) -> None:
    """Records the progress of a bundle, and requests a split if the policy decides so."""
    record = state.bundles[event.bundle]
    stage = state.stages[record.stage]
    before, record.progress = record.progress, event
    stalled = before is not None and event.fraction <= before.fraction
    record.stalled = record.stalled + 1 if stalled else 0
    if not can_split_bundle(stage, record):
        return
    if (
        must_checkpoint_bundle(state, stage, record)
        or reads_outdated_side_input(record)
        or must_checkpoint_for_pause(state, record)
    ):
        request_split(state, record, 0.0)
        return
    fraction = _decide_split(state, stage, record)
    if fraction is not None:
        request_split(state, record, fraction)


def request_yield_checkpoint(state: SchedulerState, event: YieldRequested) -> None:
    """Requests a checkpoint of a bundle that has restrictions, so that its slot becomes free."""
    record = state.bundles[event.bundle]
    stage = state.stages[record.stage]
    if stage.spec.splittable and can_split_bundle(stage, record):
        request_split(state, record, 0.0)


def divide_pending_work(
    state: SchedulerState, stage: StageState, work: Sequence[DataStatistics], most: int
) -> Sequence[int]:
    """Returns the policy's division of pending work into bundles.

    Raises:
        HostCodeError: If the policy raises an error or returns an invalid division.
    """
    load = Load(open=len(state.bundles) - state.paused, parallelism=state.limits.parallelism)
    try:
        counts = state.policy.plan_initial_split(work, most, load)
    except Exception as error:
        raise HostCodeError(stage.spec.name, _POLICY, f"failed with the error {error!r}") from error
    if not 1 <= len(counts) <= most or min(counts) < 1 or sum(counts) > len(work):
        problem = f"divided {len(work)} pieces of work into bundles of sizes {list(counts)}; the maximum is {most} bundles"
        raise HostCodeError(stage.spec.name, _POLICY, problem)
    return counts


def _decide_split(state: SchedulerState, stage: StageState, record: BundleRecord) -> float | None:
    assert record.progress is not None
    running = RunningBundle(
        stage=stage.spec.name,
        fraction=record.progress.fraction,
        elapsed=record.progress.elapsed,
        stalled=record.stalled,
        splittable=stage.spec.splittable,
        joint=stage.spec.joint_pieces and len({work.piece for work in record.work}) > 1,
        lingers=record.progress.lingers,
    )
    open_bundles = len(state.bundles) - state.paused
    parallelism = open_bundles if record.progress.takes_turns else state.limits.parallelism
    load = Load(open_bundles, parallelism)
    try:
        fraction = state.policy.plan_dynamic_split(running, load)
    except Exception as error:
        raise HostCodeError(stage.spec.name, _POLICY, f"failed with the error {error!r}") from error
    if fraction is not None and not 0.0 <= fraction <= 1.0:
        raise HostCodeError(
            stage.spec.name,
            _POLICY,
            f"returned the split fraction {fraction}; expected a value from 0 to 1",
        )
    return fraction


def must_checkpoint_bundle(state: SchedulerState, stage: StageState, record: BundleRecord) -> bool:
    """Returns whether a bundle must return its restrictions for truncation, because the job is
    draining.

    False for bundles whose restrictions no drain truncates.
    """
    draining = state.phase is Phase.DRAINING and record.section is None
    return draining and stage.spec.splittable and not record.truncated


def is_work_exempt_from_drain(work: Sequence[Work]) -> bool:
    """Returns whether a drain leaves all of the given work unchanged; False without any work."""
    return bool(work) and all(item.truncated for item in work)


def apply_split(state: SchedulerState, event: SplitDone) -> None:
    """Applies a split: the bundle keeps the primaries, also in later attempts, and the residuals
    become work of the stage.
    """
    record = state.bundles[event.bundle]
    record.split = None
    record.stalled = 0
    if not event.residuals:
        return
    stage = state.stages[record.stage]
    before = record.work
    origins = tuple(dict.fromkeys(work.piece for work in before))
    requeue_residuals(state, stage, record, event.residuals, origins)
    own = map_bundle_data_to_pieces(record)
    watermarks = _map_data_to_watermarks(before)
    resumed = any(work.residual for work in before)
    primary: list[Work] = []
    for part in event.primary:
        piece = get_data_piece_number(state, own, part.data, origins)
        primary += create_pending_work(
            state,
            stage,
            piece,
            part.data.facts.windows if part.windows is None else part.windows,
            watermark=watermarks.get(part.data, watermarks[None]),
            estimator_state=part.estimator_state,
            residual=resumed,
            truncated=record.truncated or part.whole,
        )
        drop_data_piece_reference(state, piece)
    for work in before:
        remove_pending_work(state, stage, work)
    stage.running += len(primary) - len(before)
    record.work = primary
    record.truncated = record.truncated or is_work_exempt_from_drain(primary)
    record.bundle = attrs.evolve(record.bundle, inputs=event.primary)
    mark_watermarks_stale(state, stage)


def _map_data_to_watermarks(work: list[Work]) -> dict[Data | None, Timestamp | None]:
    """Returns the watermark (ms) that the watermark estimator reported for each piece of data.

    The key None has a safe watermark for parts of unknown origin. The safe watermark is the minimum
    of all watermarks, or None if any work has no watermark.
    """
    known: dict[Data | None, Timestamp | None] = {item.data: item.watermark for item in work}
    told = [watermark for watermark in known.values() if watermark is not None]
    known[None] = min(told) if told and len(told) == len(known) else None
    return known
