"""Capture of a scheduler's state, in a form with which a different pipeline graph can continue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from beam_runner_engine.scheduler.graph import ROOT
from beam_runner_engine.scheduler.kept_state import (
    Identities,
    SavedCollection,
    SavedDataPiece,
    SavedJobState,
    SavedShard,
    SavedSideInput,
    SavedStage,
    SavedWindow,
    SavedWork,
)
from beam_runner_engine.scheduler.refusals import Refusal, RefusalKind, TransferRefused
from beam_runner_engine.scheduler.state import (
    RESIDUAL,
    CollectionState,
    SchedulerState,
    SideInputState,
    StageState,
    Work,
)
from beam_runner_engine.scheduler.transitions import Phase

_PHASES = (Phase.RUNNING, Phase.FAILED, Phase.CANCELLED)


def capture_job_state(state: SchedulerState, identities: Identities) -> SavedJobState:
    """Returns the state of a job, in which identities name stages and collections. The state itself
    doesn't change.

    The result contains open bundles as pending work. All stages need identities, and all
    collections except roots.

    Raises:
        TransferRefused: If the state can't continue in another graph.
    """
    refusals = tuple(_find_refusals_of_duplicates(state, identities))
    if refusals:
        raise TransferRefused(refusals)
    places = {number: place for place, number in enumerate(state.pieces)}
    return SavedJobState(
        now=state.now,
        next_bundle=state.next_bundle,
        pieces=tuple(
            SavedDataPiece(piece.data, tuple(places[origin] for origin in piece.origins))
            for piece in state.pieces.values()
        ),
        stages=tuple(
            _capture_stage_state(state, stage, identities, places) for stage in state.stages
        ),
        collections=tuple(
            SavedCollection(identity, collection.watermark)
            for name, collection in state.collections.items()
            if (identity := identities.collections.get(name)) is not None
        ),
    )


def find_ambiguous_identities(identities: Identities) -> Iterator[Refusal]:
    """Yields a refusal for each identity that several stages, or several collections, have."""
    for named in (identities.stages, identities.collections):
        for identity, count in Counter(named.values()).items():
            if count > 1:
                yield Refusal(RefusalKind.AMBIGUOUS_IDENTITY, identity)


def _find_refusals_of_duplicates(
    state: SchedulerState, identities: Identities
) -> Iterator[Refusal]:
    if state.phase not in _PHASES:
        yield Refusal(RefusalKind.PHASE, detail=state.phase.value)
    for stream in state.graph.test_streams:
        yield Refusal(RefusalKind.TEST_STREAM, stream.name)
    for stage in state.stages:
        name = stage.spec.name
        if name not in identities.stages:
            yield Refusal(RefusalKind.NO_IDENTITY, name)
            continue
        identity = identities.stages[name]
        if stage.section is not None:
            yield Refusal(RefusalKind.SECTION, identity)
        elif len(_list_stage_work(state, stage)) != stage.work:
            yield Refusal(RefusalKind.INTERRUPTED, identity)
    for name, collection in state.collections.items():
        if name not in identities.collections and not _is_root_collection(collection):
            yield Refusal(RefusalKind.NO_IDENTITY, name)
    yield from find_ambiguous_identities(identities)


def _is_root_collection(collection: CollectionState) -> bool:
    return collection.node.producers == (ROOT,)


def _list_stage_work(state: SchedulerState, stage: StageState) -> list[Work]:
    """Returns all work of a stage in the order of its creation."""
    found = list(stage.delayed.values())
    for shard in stage.shards.values():
        for items in shard.ready.values():
            found += items
    for side in stage.sides:
        for waiting in side.waiting.values():
            found += (work for _, work in waiting)
    for record in state.bundles.values():
        if record.stage == stage.number:
            found += record.work
    return sorted(found, key=lambda work: work.number)


def _capture_stage_state(
    state: SchedulerState, stage: StageState, identities: Identities, places: dict[int, int]
) -> SavedStage:
    # A complete stage has no state, and its key shards have no work or timers.
    shards = {} if stage.complete else stage.shards
    return SavedStage(
        identity=identities.stages[stage.spec.name],
        kind=stage.spec.kind,
        splittable=stage.spec.splittable,
        upstream=stage.seen_upstream,
        input=stage.input,
        output=stage.output,
        shards=tuple(
            SavedShard(number, shard.summary, shard.watermark)
            for number, shard in shards.items()
            if number is not None
        ),
        work=tuple(
            _capture_stage_work(state, stage, work, places)
            for work in _list_stage_work(state, stage)
        ),
        side_inputs=tuple(
            _capture_side_input_state(side, identities, places) for side in stage.sides
        ),
    )


def _capture_stage_work(
    state: SchedulerState, stage: StageState, work: Work, places: dict[int, int]
) -> SavedWork:
    delayed = work.number in stage.delayed
    return SavedWork(
        piece=places[work.piece],
        windows=work.windows,
        watermark=work.watermark,
        estimator_state=work.estimator_state,
        residual=work.residual,
        truncated=work.truncated,
        due=(
            state.clock_wakes.get_time((stage.number, RESIDUAL, work.number)) if delayed else None
        ),
    )


def _capture_side_input_state(
    side: SideInputState, identities: Identities, places: dict[int, int]
) -> SavedSideInput:
    return SavedSideInput(
        name=side.spec.name,
        collection=identities.collections.get(side.spec.collection, ""),
        windows=tuple(
            SavedWindow(window, _map_data_pieces_to_indexes(pieces, places))
            for window, pieces in side.pieces.items()
        ),
    )


def _map_data_pieces_to_indexes(pieces: Iterable[int], places: dict[int, int]) -> tuple[int, ...]:
    return tuple(places[piece] for piece in pieces)
