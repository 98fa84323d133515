"""Asks running bundles for splits; and those for a checkpoint whose side inputs have been updated.

A bundle sees its side inputs as they were when it was opened. Where a side input may be updated, one
that goes on for long must not: what is left of it comes in another bundle, which sees the latest.
"""

from __future__ import annotations

from beam_runner_model.times import Duration, Timestamp

from beam_runner_engine.scheduler.commands import SplitBundle
from beam_runner_engine.scheduler.state import (
    BUNDLE,
    BundleRecord,
    SchedulerState,
    SideView,
    StageState,
)

OUTDATED_AFTER: Duration = 200
"""A bundle is given so much time (ms) from its opening to come further before it is asked."""
ASKED_AGAIN_AFTER: Duration = 50
"""How long (ms) one that is being split already is left alone."""


def can_split(stage: StageState, record: BundleRecord) -> bool:
    """Whether a running bundle may be split: a section and a shard may not, joint shards may."""
    if record.section is not None:
        return False
    if stage.spec.joint_shards:
        return len({work.data.facts.shard for work in record.work}) > 1
    return not stage.spec.keyed and not stage.spec.whole_input


def ask(state: SchedulerState, record: BundleRecord, fraction: float) -> None:
    """Asks for the split of a running bundle."""
    record.split = SplitBundle(record.bundle.number, record.bundle.attempt, fraction)
    state.commands.append(record.split)


def note_update(state: SchedulerState, stage: StageState, view: SideView) -> None:
    """Sets when the open bundles that read a view are asked for a checkpoint: it is outdated."""
    if not view.uses:
        return
    for record in state.bundles.values():
        reads = record.stage == stage.number and any(other is view for other in record.views)
        if reads and record.due is None:
            ask_soon(state, stage, record, record.bundle.processing_time)


def ask_soon(
    state: SchedulerState, stage: StageState, record: BundleRecord, began: Timestamp
) -> None:
    """Sets when a bundle that `began` (ms) to run is asked for a checkpoint, if it can be split."""
    if can_split(stage, record):
        when = max(state.now, began + OUTDATED_AFTER)
        state.clock_wakes.put((stage.number, BUNDLE, record.bundle.number), when)


def ask_outdated(state: SchedulerState, bundle: int) -> None:
    """Asks a bundle for the checkpoint that it was to be asked for by now; later if it is just being
    split in another way."""
    record = state.bundles[bundle]
    if record.split is None:
        ask(state, record, 0.0)
    else:
        state.clock_wakes.put((record.stage, BUNDLE, bundle), state.now + ASKED_AGAIN_AFTER)


def forget_update(state: SchedulerState, stage: StageState, bundle: int) -> None:
    """A bundle is closed, or has just been asked."""
    state.clock_wakes.put((stage.number, BUNDLE, bundle), None)


def is_outdated(record: BundleRecord) -> bool:
    """Whether a bundle reads what is not the latest of a side input that may be updated."""
    return any(view.updating and not view.current for view in record.views)
