"""Whether an event is legal: looked at in full before anything is changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from beam_runner_model.summary import EMPTY_SUMMARY

from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.errors import IllegalEvent
from beam_runner_engine.scheduler.events import (
    BundleDone,
    BundleFailed,
    Event,
    GiveWay,
    Output,
    Progress,
    Residual,
    SectionRefused,
    SplitDone,
    Start,
)
from beam_runner_engine.scheduler.graph import CollectionNode
from beam_runner_engine.scheduler.state import BundleRecord, SchedulerState, StageState
from beam_runner_engine.scheduler.transitions import (
    BUNDLE_TABLE,
    JOB_TABLE,
    BundleState,
    Reaction,
)

BundleEvent: TypeAlias = BundleDone | BundleFailed | SectionRefused | Progress | GiveWay | SplitDone


def check(state: SchedulerState, event: Event) -> Reaction:
    """Says what an event does by the transition tables; IllegalEvent when it is not allowed."""
    transition = JOB_TABLE.get((state.phase, type(event)))
    if transition is None:
        raise IllegalEvent(event, f"it can't come while the job is {state.phase.value}")
    if transition.reaction is Reaction.IGNORE:
        return Reaction.IGNORE
    if isinstance(event, BundleEvent):
        return _check_bundle_event(state, event)
    if isinstance(event, Start):
        _check_outputs(state, event, event.roots, state.graph.roots, "a root of the graph")
    return Reaction.ACT


def _check_bundle_event(state: SchedulerState, event: BundleEvent) -> Reaction:
    bundle_state = _bundle_state(state, event)
    transition = BUNDLE_TABLE.get((bundle_state, type(event)))
    if transition is None:
        raise IllegalEvent(
            event, f"it can't come while bundle {event.bundle} is {bundle_state.value}"
        )
    if transition.reaction is Reaction.IGNORE:
        return Reaction.IGNORE
    record = state.bundles[event.bundle]
    stage = state.stages[record.stage]
    if isinstance(event, BundleDone) and record.section is not None:
        _check_section_done(state, record.section, event)
    elif isinstance(event, BundleDone):
        _check_done(state, stage, record, event)
    elif isinstance(event, SectionRefused) and record.section is None:
        raise IllegalEvent(event, f"bundle {event.bundle} is not of a section")
    elif isinstance(event, SplitDone):
        _check_residuals(stage, event, event.residuals)
        for part in event.primary:
            _check_count(event, part.data)
        _check_cut(stage, event)
    elif isinstance(event, Progress) and not (0.0 <= event.fraction <= 1.0 and event.elapsed >= 0):
        raise IllegalEvent(event, "its fraction must be from 0 to 1 and its time not below 0")
    return Reaction.ACT


def _bundle_state(state: SchedulerState, event: BundleEvent) -> BundleState:
    if not 0 <= event.bundle < state.next_bundle:
        raise IllegalEvent(event, f"there never was a bundle {event.bundle}")
    record = state.bundles.get(event.bundle)
    if record is None:
        return BundleState.CLOSED
    if not 1 <= event.attempt <= record.bundle.attempt:
        raise IllegalEvent(
            event, f"bundle {event.bundle} is at attempt {record.bundle.attempt}, not beyond"
        )
    return record.state if event.attempt == record.bundle.attempt else BundleState.CLOSED


def _check_done(
    state: SchedulerState, stage: StageState, record: BundleRecord, event: BundleDone
) -> None:
    name = stage.spec.name
    if stage.spec.keyed and event.summary is None:
        raise IllegalEvent(
            event,
            f"stage {name!r} is keyed, so the summary of shard {record.bundle.shard} is missing",
        )
    if stage.spec.joint_shards and event.summary != EMPTY_SUMMARY:
        raise IllegalEvent(event, f"stage {name!r} joins shards, so nothing of them may last")
    if not stage.spec.keyed and event.summary is not None:
        raise IllegalEvent(event, f"stage {name!r} is ordinary and has no shards to summarize")
    if event.residuals and not stage.spec.splittable:
        raise IllegalEvent(event, f"stage {name!r} is not splittable and can't have residuals")
    _check_residuals(stage, event, event.residuals)
    _check_outputs(state, event, event.outputs, stage.spec.outputs, f"an output of stage {name!r}")


def _check_section_done(state: SchedulerState, section: int, event: BundleDone) -> None:
    if event.residuals:
        raise IllegalEvent(event, "a section can't have residuals; refuse it")
    if event.summary is not None:
        raise IllegalEvent(event, "a section leaves nothing in shards that could be summarized")
    node = state.sections[section].node
    name = state.stages[node.stages[0]].spec.name
    what = f"an output of the section that begins with stage {name!r}"
    _check_outputs(state, event, event.outputs, node.outputs, what)


def _check_residuals(stage: StageState, event: Event, residuals: Iterable[Residual]) -> None:
    for residual in residuals:
        _check_count(event, residual.data)
        if residual.delay < 0:
            raise IllegalEvent(
                event, f"a residual of stage {stage.spec.name!r} has a delay below 0"
            )


def _check_cut(stage: StageState, event: SplitDone) -> None:
    if not stage.spec.keyed:
        return
    kept = {part.data.facts.shard for part in event.primary}
    if any(residual.data.facts.shard in kept for residual in event.residuals):
        raise IllegalEvent(event, f"stage {stage.spec.name!r} is keyed, and a shard is cut in two")


def _check_outputs(
    state: SchedulerState,
    event: Event,
    outputs: Iterable[Output],
    allowed: tuple[str, ...],
    what: str,
) -> None:
    for output in outputs:
        if output.collection not in allowed:
            raise IllegalEvent(event, f"{output.collection!r} is not {what}")
        collection = state.collections[output.collection]
        why = unfit(collection.node, output.data)
        if why:
            raise IllegalEvent(event, why)


def _check_count(event: Event, data: Data) -> None:
    if data.facts.count < 1:
        raise IllegalEvent(event, f"data {data.ref!r} has no elements; leave it out")


def unfit(collection: CollectionNode, data: Data) -> str | None:
    """Returns why data can't be of a collection, by what its readers must know of it, or None."""
    where = f"data {data.ref!r} of collection {collection.name!r}"
    if data.facts.count < 1:
        return f"{where} has no elements; leave it out"
    if collection.keyed and data.facts.shard is None:
        return f"{where} does not tell its key shard, but a keyed stage reads it"
    if collection.side_consumers and not data.facts.windows:
        return f"{where} does not tell its windows, but it is a side input"
    return None
