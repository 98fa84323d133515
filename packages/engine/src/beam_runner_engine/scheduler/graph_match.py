"""Match of a graph with the saved state of another graph: which stages, collections and side inputs
correspond, and what forbids a transfer.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from beam_runner_model.times import MAX_TIMESTAMP, Timestamp

from beam_runner_engine.scheduler.capture import find_ambiguous_identities
from beam_runner_engine.scheduler.kept_state import (
    Identities,
    SavedJobState,
    SavedSideInput,
    SavedStage,
)
from beam_runner_engine.scheduler.refusals import Refusal, RefusalKind, TransferRefused
from beam_runner_engine.scheduler.state import SchedulerState


@attrs.frozen
class GraphMatch:
    """Stages and collections of a graph that continue parts of a saved state, by number or name in
    the graph. All other parts are new.

    Attributes:
        stages: the kept form of each known stage.
        collections: the watermark (ms) of each known collection.
        side_inputs: the kept form of each known side input, by the stage's number and the index of
            the side input. The collection of a known side input is the same as before.
    """

    identities: Identities
    stages: dict[int, SavedStage]
    collections: dict[str, Timestamp]
    side_inputs: dict[tuple[int, int], SavedSideInput]


def match_graph_with_saved_state(
    kept: SavedJobState, state: SchedulerState, identities: Identities, dropped: frozenset[str]
) -> GraphMatch:
    """Returns the match of the graph of `state` with a captured state.

    Raises:
        TransferRefused: If the captured state can't continue in the graph.
    """
    kept_stages = {stage.identity: stage for stage in kept.stages}
    watermarks = {one.identity: one.watermark for one in kept.collections}
    side_inputs = {
        (stage.identity, side.name): side for stage in kept.stages for side in stage.side_inputs
    }
    match = GraphMatch(
        identities,
        stages={
            stage.number: kept_stages[identity]
            for stage in state.stages
            if (identity := identities.stages.get(stage.spec.name)) in kept_stages
        },
        collections={
            name: watermarks[identity]
            for name in state.collections
            if (identity := identities.collections.get(name)) in watermarks
        },
        side_inputs={
            (stage.number, place): known
            for stage in state.stages
            for place, side in enumerate(stage.sides)
            if (origin := identities.side_inputs.get((stage.spec.name, side.spec.name)))
            and (known := side_inputs.get(origin))
            and known.collection == identities.collections.get(side.spec.collection)
        },
    )
    refusals = (
        *find_ambiguous_identities(identities),
        *_find_unknown_stages(state, identities, match),
        *_find_data_of_missing_stages(kept, match, dropped),
        *_find_incompatible_stages(state, match),
        *_find_ended_side_inputs(state, match),
    )
    if refusals:
        raise TransferRefused(refusals)
    return match


def check_no_input_after_end(state: SchedulerState, match: GraphMatch) -> None:
    """Checks that no known stage or side input gets more input after the end of its input.

    Raises:
        TransferRefused: If the graph adds a producer to input that has ended.
    """
    refusals = [
        Refusal(RefusalKind.ENDED_INPUT, known.identity)
        for number, known in match.stages.items()
        if known.upstream == MAX_TIMESTAMP
        and state.stages[number].upstream.get_earliest_time() < MAX_TIMESTAMP
    ]
    refusals += [
        Refusal(RefusalKind.ENDED_INPUT, match.identities.collections[name])
        for name, watermark in match.collections.items()
        if watermark == MAX_TIMESTAMP
        and state.collections[name].producers.get_earliest_time() < MAX_TIMESTAMP
    ]
    if refusals:
        raise TransferRefused(tuple(refusals))


def _find_unknown_stages(
    state: SchedulerState, identities: Identities, match: GraphMatch
) -> Iterator[Refusal]:
    for stage in state.stages:
        if stage.section is not None:
            yield Refusal(RefusalKind.SECTION, stage.spec.name)
        identity = identities.stages.get(stage.spec.name)
        if identity is not None and stage.number not in match.stages:
            yield Refusal(RefusalKind.UNKNOWN_IDENTITY, identity)
    for stream in state.graph.test_streams:
        yield Refusal(RefusalKind.TEST_STREAM, stream.name)


def _find_data_of_missing_stages(
    kept: SavedJobState, match: GraphMatch, dropped: frozenset[str]
) -> Iterator[Refusal]:
    """Yields a refusal for all data and timers of stages that the graph doesn't have."""
    claimed = {stage.identity for stage in match.stages.values()}
    for stage in kept.stages:
        if stage.identity in claimed or stage.identity in dropped:
            continue
        if stage.work:
            count = sum(kept.pieces[work.piece].data.facts.count for work in stage.work)
            yield Refusal(RefusalKind.WORK_LEFT, stage.identity, f"{count} elements")
        if stage.waiting_shards:
            detail = f"{len(stage.waiting_shards)} key shards"
            yield Refusal(RefusalKind.STATE_LEFT, stage.identity, detail)


def _find_incompatible_stages(state: SchedulerState, match: GraphMatch) -> Iterator[Refusal]:
    for number, known in match.stages.items():
        spec = state.stages[number].spec
        if spec.kind is not known.kind:
            detail = f"{known.kind.value} -> {spec.kind.value}"
            yield Refusal(RefusalKind.STAGE_KIND, known.identity, detail)
        elif known.work and spec.splittable != known.splittable:
            detail = "restrictions -> elements" if known.splittable else "elements -> restrictions"
            yield Refusal(RefusalKind.STAGE_KIND, known.identity, detail)


def _find_ended_side_inputs(state: SchedulerState, match: GraphMatch) -> Iterator[Refusal]:
    for stage in state.stages:
        for place, side in enumerate(stage.sides):
            name = side.spec.collection
            ended = match.collections.get(name) == MAX_TIMESTAMP
            if ended and (stage.number, place) not in match.side_inputs:
                collection = match.identities.collections[name]
                yield Refusal(RefusalKind.ENDED_SIDE_INPUT, collection, stage.spec.name)
