"""Hold of stages: held stages open no bundles, so that all open bundles of the job can finish."""

from __future__ import annotations

from collections.abc import Iterable

from beam_runner_engine.scheduler.checkpoints import can_split_bundle, request_split
from beam_runner_engine.scheduler.state import BundleRecord, SchedulerState


def pause_stages(state: SchedulerState, names: Iterable[str]) -> None:
    """Holds exactly the named stages, and releases all other held stages.

    Running bundles of held stages with restrictions get a checkpoint request.
    """
    released, state.held = state.held, tuple(sorted({state.numbers[name] for name in names}))
    state.touched.update(dict.fromkeys(released))
    for record in state.bundles.values():
        if record.split is None and record.due is None and must_checkpoint_for_pause(state, record):
            request_split(state, record, 0.0)


def must_checkpoint_for_pause(state: SchedulerState, record: BundleRecord) -> bool:
    """Returns whether a bundle must return its restrictions, because the caller holds (pauses) the
    bundle's stage.
    """
    stage = state.stages[record.stage]
    return record.stage in state.held and stage.spec.splittable and can_split_bundle(stage, record)


def is_idle(state: SchedulerState) -> bool:
    """Returns whether a running job has no open bundle.

    All remaining work then belongs to held stages, or waits for a watermark, a side input or
    processing time.
    """
    return state.running and not state.bundles
