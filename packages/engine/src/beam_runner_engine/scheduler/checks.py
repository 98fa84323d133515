"""Validation of events, which is complete before the scheduler's state changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from beam_runner_model.summary import EMPTY_SUMMARY
from beam_runner_model.times import MAX_TIMESTAMP

from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.errors import IllegalEvent
from beam_runner_engine.scheduler.events import (
    BundleDone,
    BundleFailed,
    Event,
    Hold,
    Output,
    Progress,
    Redeliver,
    Residual,
    SectionRefused,
    SplitDone,
    Start,
    YieldRequested,
)
from beam_runner_engine.scheduler.graph import CollectionNode
from beam_runner_engine.scheduler.state import BundleRecord, SchedulerState, StageState
from beam_runner_engine.scheduler.transitions import (
    BUNDLE_TABLE,
    JOB_TABLE,
    BundleState,
    Reaction,
)

BundleEvent: TypeAlias = (
    BundleDone | BundleFailed | SectionRefused | Progress | YieldRequested | SplitDone
)


def check_event(state: SchedulerState, event: Event) -> Reaction:
    """Returns the scheduler's reaction to an event, from the transition tables.

    Raises:
        IllegalEvent: If the event isn't allowed in the current state or has invalid contents.
    """
    transition = JOB_TABLE.get((state.phase, type(event)))
    if transition is None:
        raise IllegalEvent(event, f"the event isn't allowed while the job is {state.phase.value}")
    if transition.reaction is Reaction.IGNORE:
        return Reaction.IGNORE
    if isinstance(event, BundleEvent):
        return _check_bundle_event(state, event)
    if isinstance(event, Start):
        _check_outputs(state, event, event.roots, state.graph.roots, "a root of the graph")
    elif isinstance(event, Hold):
        _check_paused_stages(state, event)
    elif isinstance(event, Redeliver):
        _check_redelivery(state, event)
    return Reaction.ACT


def _check_paused_stages(state: SchedulerState, event: Hold) -> None:
    for name in event.stages:
        number = state.numbers.get(name)
        if number is None:
            raise IllegalEvent(event, f"the graph has no stage {name!r}")
        if state.stages[number].section is not None:
            raise IllegalEvent(event, f"can't hold stage {name!r}, because it is in a section")


def _check_redelivery(state: SchedulerState, event: Redeliver) -> None:
    number = state.numbers.get(event.stage)
    if number is None:
        raise IllegalEvent(event, f"the graph has no stage {event.stage!r}")
    stage = state.stages[number]
    if stage.section is not None or stage.output == MAX_TIMESTAMP:
        raise IllegalEvent(event, f"stage {event.stage!r} is complete, or runs in a section")
    for data in event.data:
        _check_element_count(event, data)
        if stage.spec.is_keyed and data.facts.shard is None:
            raise IllegalEvent(
                event, f"data {data.ref!r} for the keyed stage {event.stage!r} has no shard"
            )


def _check_bundle_event(state: SchedulerState, event: BundleEvent) -> Reaction:
    bundle_state = _get_bundle_state(state, event)
    transition = BUNDLE_TABLE.get((bundle_state, type(event)))
    if transition is None:
        raise IllegalEvent(
            event, f"the event isn't allowed while bundle {event.bundle} is {bundle_state.value}"
        )
    if transition.reaction is Reaction.IGNORE:
        return Reaction.IGNORE
    record = state.bundles[event.bundle]
    stage = state.stages[record.stage]
    if isinstance(event, BundleDone) and record.section is not None:
        _check_section_done(state, record.section, event)
    elif isinstance(event, BundleDone):
        _check_bundle_done(state, stage, record, event)
    elif isinstance(event, SectionRefused) and record.section is None:
        raise IllegalEvent(event, f"bundle {event.bundle} is not the bundle of a section")
    elif isinstance(event, SplitDone):
        _check_residuals(stage, event, event.residuals)
        for part in event.primary:
            _check_element_count(event, part.data)
        _check_split_shards(stage, event)
    elif isinstance(event, Progress) and not (0.0 <= event.fraction <= 1.0 and event.elapsed >= 0):
        raise IllegalEvent(
            event, "the fraction must be from 0 to 1, and the elapsed time must not be negative"
        )
    return Reaction.ACT


def _get_bundle_state(state: SchedulerState, event: BundleEvent) -> BundleState:
    if not 0 <= event.bundle < state.next_bundle:
        raise IllegalEvent(event, f"bundle {event.bundle} was never opened")
    record = state.bundles.get(event.bundle)
    if record is None:
        return BundleState.CLOSED
    if not 1 <= event.attempt <= record.bundle.attempt:
        raise IllegalEvent(
            event, f"the latest attempt at bundle {event.bundle} is {record.bundle.attempt}"
        )
    return record.state if event.attempt == record.bundle.attempt else BundleState.CLOSED


def _check_bundle_done(
    state: SchedulerState, stage: StageState, record: BundleRecord, event: BundleDone
) -> None:
    name = stage.spec.name
    if stage.spec.is_keyed and event.summary is None:
        raise IllegalEvent(
            event,
            f"the summary of shard {record.bundle.shard} is missing, but stage {name!r} is keyed",
        )
    if stage.spec.joint_shards and event.summary != EMPTY_SUMMARY:
        raise IllegalEvent(
            event,
            f"unexpected shard summary: bundles of stage {name!r} process several shards together,"
            " so their summary must be empty",
        )
    if not stage.spec.is_keyed and event.summary is not None:
        raise IllegalEvent(event, f"unexpected shard summary: stage {name!r} is not keyed")
    if event.residuals and not stage.spec.splittable:
        raise IllegalEvent(event, f"unexpected residuals: stage {name!r} is not splittable")
    _check_residuals(stage, event, event.residuals)
    _check_outputs(state, event, event.outputs, stage.spec.outputs, f"an output of stage {name!r}")


def _check_section_done(state: SchedulerState, section: int, event: BundleDone) -> None:
    if event.residuals:
        raise IllegalEvent(event, "a section can't have residuals; send SectionRefused instead")
    if event.summary is not None:
        raise IllegalEvent(event, "a section can't have a shard summary")
    node = state.sections[section].node
    name = state.stages[node.stages[0]].spec.name
    what = f"an output of the section whose first stage is {name!r}"
    _check_outputs(state, event, event.outputs, node.outputs, what)


def _check_residuals(stage: StageState, event: Event, residuals: Iterable[Residual]) -> None:
    for residual in residuals:
        _check_element_count(event, residual.data)
        if residual.delay < 0:
            raise IllegalEvent(
                event, f"a residual of stage {stage.spec.name!r} has a negative delay"
            )


def _check_split_shards(stage: StageState, event: SplitDone) -> None:
    if not stage.spec.is_keyed:
        return
    kept = {part.data.facts.shard for part in event.primary}
    if any(residual.data.facts.shard in kept for residual in event.residuals):
        raise IllegalEvent(
            event, f"the split divides a shard of the keyed stage {stage.spec.name!r}"
        )


def _check_outputs(
    state: SchedulerState,
    event: Event,
    outputs: Iterable[Output],
    allowed: tuple[str, ...],
    what: str,
) -> None:
    for output in outputs:
        if output.collection not in allowed:
            raise IllegalEvent(event, f"the output collection {output.collection!r} is not {what}")
        collection = state.collections[output.collection]
        why = describe_missing_statistics(collection.node, output.data)
        if why:
            raise IllegalEvent(event, why)


def _check_element_count(event: Event, data: Data) -> None:
    if data.facts.count < 1:
        raise IllegalEvent(event, f"data {data.ref!r} has no elements; omit empty data")


def describe_missing_statistics(collection: CollectionNode, data: Data) -> str | None:
    """Describes the statistics of data that the readers of a collection need and the data lacks; None
    for valid data.
    """
    if data.facts.count < 1:
        lack = "has no elements; omit empty data"
    elif collection.keyed and data.facts.shard is None:
        lack = "has no key shard, but a keyed stage reads the collection"
    elif collection.side_consumers and not data.facts.windows:
        lack = "has no known windows, but the collection is a side input"
    else:
        return None  # without the text: a reference can be long, and this runs for each output
    return f"data {data.ref!r} of collection {collection.name!r} {lack}"
