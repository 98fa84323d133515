"""Splits: of waiting work, by the policy; of running bundles, by the policy as progress is
reported, by a drain, and where others wait for their place.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from beam_runner_model.facts import DataFacts
from beam_runner_model.times import Timestamp

from beam_runner_engine.scheduler.checkpoints import ask, can_split, is_outdated
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.delivery import new_work, remove_work
from beam_runner_engine.scheduler.errors import HostCodeError
from beam_runner_engine.scheduler.events import GiveWay, Progress, SplitDone
from beam_runner_engine.scheduler.pieces import drop_use
from beam_runner_engine.scheduler.policy import Load, RunningBundle
from beam_runner_engine.scheduler.residuals import own_pieces, piece_of, take_back
from beam_runner_engine.scheduler.state import BundleRecord, SchedulerState, StageState, Work
from beam_runner_engine.scheduler.transitions import Phase
from beam_runner_engine.scheduler.watermarks import refresh

_POLICY = "the splitting policy for a bundle"


def note_progress(state: SchedulerState, event: Progress) -> None:
    """Notes a bundle's progress and asks for a split if the policy wants one."""
    record = state.bundles[event.bundle]
    stage = state.stages[record.stage]
    before, record.progress = record.progress, event
    stalled = before is not None and event.fraction <= before.fraction
    record.stalled = record.stalled + 1 if stalled else 0
    if not can_split(stage, record):
        return
    if must_checkpoint(state, stage, record) or is_outdated(record):
        ask(state, record, 0.0)
        return
    fraction = _dynamic_split(state, stage, record)
    if fraction is not None:
        ask(state, record, fraction)


def give_way(state: SchedulerState, event: GiveWay) -> None:
    """Asks a bundle for a checkpoint of its restrictions, if it has any."""
    record = state.bundles[event.bundle]
    stage = state.stages[record.stage]
    if stage.spec.splittable and can_split(stage, record):
        ask(state, record, 0.0)


def initial_split(
    state: SchedulerState, stage: StageState, work: Sequence[DataFacts], most: int
) -> Sequence[int]:
    """Asks the policy how to cut waiting work into bundles; HostCodeError if it can't be cut so."""
    load = Load(open=len(state.bundles) - state.paused, parallelism=state.limits.parallelism)
    try:
        counts = state.policy.initial_split(work, most, load)
    except Exception as error:
        raise HostCodeError(stage.spec.name, _POLICY, f"raised {error!r}") from error
    if not 1 <= len(counts) <= most or min(counts) < 1 or sum(counts) > len(work):
        problem = f"cut {len(work)} pieces of work into {list(counts)}, of at most {most} bundles"
        raise HostCodeError(stage.spec.name, _POLICY, problem)
    return counts


def _dynamic_split(state: SchedulerState, stage: StageState, record: BundleRecord) -> float | None:
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
        fraction = state.policy.dynamic_split(running, load)
    except Exception as error:
        raise HostCodeError(stage.spec.name, _POLICY, f"raised {error!r}") from error
    if fraction is not None and not 0.0 <= fraction <= 1.0:
        raise HostCodeError(stage.spec.name, _POLICY, f"split a bundle at {fraction}")
    return fraction


def must_checkpoint(state: SchedulerState, stage: StageState, record: BundleRecord) -> bool:
    """Whether a bundle must hand back its restrictions, to be truncated because the job drains.

    Nothing is asked of a bundle whose restrictions no drain truncates.
    """
    draining = state.phase is Phase.DRAINING and record.section is None
    return draining and stage.spec.splittable and not record.truncated


def are_whole(work: Sequence[Work]) -> bool:
    """Whether there is work, and no drain truncates any of it."""
    return bool(work) and all(item.truncated for item in work)


def take_split(state: SchedulerState, event: SplitDone) -> None:
    """Leaves the bundle its primary part, which is what another attempt would do too, and makes the
    residuals work of the stage.
    """
    record = state.bundles[event.bundle]
    record.split = None
    record.stalled = 0
    if not event.residuals:
        return
    stage = state.stages[record.stage]
    before = record.work
    origins = tuple(dict.fromkeys(work.piece for work in before))
    take_back(state, stage, record, event.residuals, origins)
    own = own_pieces(record)
    watermarks = _watermarks(before)
    resumed = any(work.residual for work in before)
    primary: list[Work] = []
    for part in event.primary:
        piece = piece_of(state, own, part.data, origins)
        primary += new_work(
            state,
            stage,
            piece,
            part.data.facts.windows if part.windows is None else part.windows,
            watermark=watermarks.get(part.data, watermarks[None]),
            estimator_state=part.estimator_state,
            residual=resumed,
            truncated=record.truncated or part.whole,
        )
        drop_use(state, piece)
    for work in before:
        remove_work(state, stage, work)
    stage.running += len(primary) - len(before)
    record.work = primary
    record.truncated = record.truncated or are_whole(primary)
    record.bundle = attrs.evolve(record.bundle, inputs=event.primary)
    refresh(state, stage)


def _watermarks(work: list[Work]) -> dict[Data | None, Timestamp | None]:
    """Returns the watermarks (ms) that estimators reported, by data.

    With the key None, what is safe for a part of which it is not known what it was cut from: the
    earliest, or None if any has none.
    """
    known: dict[Data | None, Timestamp | None] = {item.data: item.watermark for item in work}
    told = [watermark for watermark in known.values() if watermark is not None]
    known[None] = min(told) if told and len(told) == len(known) else None
    return known
