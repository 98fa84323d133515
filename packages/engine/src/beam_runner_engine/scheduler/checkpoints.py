"""Requests for splits of running bundles, and for checkpoints of bundles with outdated side inputs.

A bundle reads the side inputs that existed when the bundle was opened. If a side input can be
updated, a long-running bundle must checkpoint, so that a later bundle processes the rest with the
latest data.
"""

from __future__ import annotations

from beam_runner_model.times import Duration, Timestamp

from beam_runner_engine.scheduler.commands import SplitBundle
from beam_runner_engine.scheduler.state import (
    BUNDLE,
    BundleRecord,
    SchedulerState,
    SideInputView,
    StageState,
)

OUTDATED_AFTER: Duration = 200
"""Minimum time (ms) from the opening of a bundle to a checkpoint request because of an outdated
side input.
"""
RETRY_REQUEST_AFTER: Duration = 50
"""Delay (ms) of a checkpoint request while the bundle is handling another split."""


def can_split_bundle(stage: StageState, record: BundleRecord) -> bool:
    """Returns whether a running bundle can be split. Sections and single key shards can't be split;
    bundles of several small shards can.
    """
    if record.section is not None:
        return False
    if stage.spec.joint_shards:
        return len({work.data.facts.shard for work in record.work}) > 1
    return not stage.spec.is_keyed and not stage.spec.whole_input


def request_split(state: SchedulerState, record: BundleRecord, fraction: float) -> None:
    """Requests a split of a running bundle. The bundle keeps `fraction` of the remaining work."""
    record.split = SplitBundle(record.bundle.number, record.bundle.attempt, fraction)
    state.commands.append(record.split)


def schedule_checkpoints(state: SchedulerState, stage: StageState, view: SideInputView) -> None:
    """Schedules checkpoint requests for the open bundles that read an outdated version of a side-input window."""
    if not view.uses:
        return
    for record in state.bundles.values():
        reads = record.stage == stage.number and any(other is view for other in record.views)
        if reads and record.due is None:
            schedule_checkpoint(state, stage, record, record.bundle.processing_time)


def schedule_checkpoint(
    state: SchedulerState, stage: StageState, record: BundleRecord, began: Timestamp
) -> None:
    """Schedules a checkpoint request for a bundle of a splittable DoFn that started at `began`
    (processing time, ms).
    """
    if can_split_bundle(stage, record):
        when = max(state.now, began + OUTDATED_AFTER)
        state.clock_wakes.set_time((stage.number, BUNDLE, record.bundle.number), when)


def request_checkpoint(state: SchedulerState, bundle: int) -> None:
    """Requests a scheduled checkpoint from a bundle, or postpones the request if another split is
    pending.
    """
    record = state.bundles[bundle]
    if record.split is None:
        request_split(state, record, 0.0)
    else:
        state.clock_wakes.set_time((record.stage, BUNDLE, bundle), state.now + RETRY_REQUEST_AFTER)


def cancel_checkpoint_request(state: SchedulerState, stage: StageState, bundle: int) -> None:
    """Cancels the scheduled checkpoint request of a bundle that closed or was just asked to split."""
    state.clock_wakes.set_time((stage.number, BUNDLE, bundle), None)


def reads_outdated_side_input(record: BundleRecord) -> bool:
    """Returns whether a bundle reads an outdated version of a side input that can be updated."""
    return any(view.updating and not view.current for view in record.views)
