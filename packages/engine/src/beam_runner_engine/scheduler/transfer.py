"""Transfer of a job's state to another graph, in which identities find the corresponding stages.

Watermarks of known stages and collections never go back. Known stages continue with their key
shards and all unfinished work. Only new stages get the data of roots, because known stages have
already read it.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from beam_runner_model.summary import EMPTY_SUMMARY
from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP

from beam_runner_engine.scheduler.bundles import replace_shard_summary
from beam_runner_engine.scheduler.commands import Command, FailJob
from beam_runner_engine.scheduler.delivery import (
    create_pending_work,
    get_shard_state,
    mark_shard_for_bundle_check,
    queue_pending_work,
    queue_unblocked_work,
)
from beam_runner_engine.scheduler.errors import HostCodeError
from beam_runner_engine.scheduler.events import Output
from beam_runner_engine.scheduler.graph import ROOT, compile_graph
from beam_runner_engine.scheduler.graph_match import (
    GraphMatch,
    check_no_input_after_end,
    match_graph_with_saved_state,
)
from beam_runner_engine.scheduler.kept_state import (
    Identities,
    SavedJobState,
    SavedShard,
    SavedWork,
)
from beam_runner_engine.scheduler.pieces import (
    add_data_piece,
    add_data_piece_reference,
    drop_data_piece_reference,
)
from beam_runner_engine.scheduler.policy import (
    DefaultPolicy,
    DefaultSectionPolicy,
    SplittingPolicy,
)
from beam_runner_engine.scheduler.refusals import Refusal, RefusalKind, TransferRefused
from beam_runner_engine.scheduler.scheduler import take_commands
from beam_runner_engine.scheduler.sections import find_sections
from beam_runner_engine.scheduler.side_inputs import add_side_input_data, restore_side_input_window
from beam_runner_engine.scheduler.specs import GraphSpec, Limits
from beam_runner_engine.scheduler.state import SchedulerState, StageState, create_state
from beam_runner_engine.scheduler.termination import apply_event_consequences
from beam_runner_engine.scheduler.transitions import Phase
from beam_runner_engine.scheduler.wakeups import delay_work
from beam_runner_engine.scheduler.watermarks import mark_watermarks_stale, propagate_watermarks


def transfer_job_state(
    kept: SavedJobState,
    graph: GraphSpec,
    identities: Identities,
    roots: Iterable[Output] = (),
    *,
    limits: Limits | None = None,
    policy: SplittingPolicy | None = None,
    dropped: frozenset[str] = frozenset(),
    woken: frozenset[str] = frozenset(),
) -> tuple[SchedulerState, tuple[Command, ...]]:
    """Returns the state of a job that continues from `kept` with another graph, and its first
    commands.

    The commands release the data that the other graph doesn't need.

    Args:
        kept: the captured state, which doesn't change.
        graph: the graph to continue with.
        identities: the identities in `kept` of the graph's stages, collections and side inputs.
            Everything without an identity is new.
        roots: the data of all root collections of the graph. Only new stages get this data.
        limits: the limits of the job; defaults to `Limits()`.
        policy: the splitting policy; defaults to `DefaultPolicy()`.
        dropped: the identities of stages whose work and shards can be dropped.
        woken: the identities of stages whose waiting shards each get a bundle immediately.

    Raises:
        TransferRefused: If the state can't continue in the graph.
        GraphError: If the graph is invalid.
    """
    limits = limits or Limits()
    compiled = compile_graph(graph)
    state = create_state(
        compiled,
        limits,
        policy or DefaultPolicy(),
        DefaultSectionPolicy(),
        find_sections(compiled, limits.section_exchanges),
    )
    match = match_graph_with_saved_state(kept, state, identities, dropped)
    state.phase, state.now, state.next_bundle = Phase.RUNNING, kept.now, kept.next_bundle
    try:
        _restore_stages(state, kept, match, woken)
        _deliver_root_data(state, roots, match)
        propagate_watermarks(state)
        check_no_input_after_end(state, match)
        apply_event_consequences(state)
    except HostCodeError as error:
        refusal = Refusal(RefusalKind.HOST_CODE, error.stage, str(error))
        raise TransferRefused((refusal,)) from error
    commands = take_commands(state)
    for command in commands:
        if isinstance(command, FailJob):
            raise TransferRefused((Refusal(RefusalKind.STUCK, detail=command.reason),))
    return state, commands


def _restore_stages(
    state: SchedulerState, kept: SavedJobState, match: GraphMatch, woken: frozenset[str]
) -> None:
    _restore_watermarks(state, match)
    pieces = _restore_data_pieces(state, kept)
    for stage in state.stages:
        known = match.stages.get(stage.number)
        _restore_side_inputs(state, stage, match, pieces)
        if known is not None:
            for shard in known.shards:
                _restore_shard(state, stage, shard, wake=known.identity in woken)
            for work in known.work:
                _restore_work(state, stage, work, pieces)
        mark_watermarks_stale(state, stage)
    for piece in pieces:
        drop_data_piece_reference(state, piece)


def _restore_watermarks(state: SchedulerState, match: GraphMatch) -> None:
    """Restores the watermarks of known stages and collections as lower bounds."""
    for number, known in match.stages.items():
        stage = state.stages[number]
        stage.seen_upstream, stage.input, stage.output = known.upstream, known.input, known.output
    for name, collection in state.collections.items():
        for producer in collection.node.producers:
            time = MAX_TIMESTAMP if producer == ROOT else state.stages[producer].output
            collection.producers.set_time(producer, time)
        collection.watermark = max(
            match.collections.get(name, MIN_TIMESTAMP),
            collection.producers.get_earliest_time(),
        )
        for number in collection.node.consumers:
            state.stages[number].upstream.set_time(name, collection.watermark)


def _restore_data_pieces(state: SchedulerState, kept: SavedJobState) -> tuple[int, ...]:
    """Restores all data of the saved state, and returns the numbers of the data items. Each item
    has one reference, which the caller must drop.
    """
    numbers = tuple(add_data_piece(state, piece.data) for piece in kept.pieces)
    for number, piece in zip(numbers, kept.pieces, strict=True):
        origins = tuple(numbers[origin] for origin in piece.origins)
        state.pieces[number].origins = origins
        for origin in origins:
            add_data_piece_reference(state, origin)
    return numbers


def _restore_side_inputs(
    state: SchedulerState, stage: StageState, match: GraphMatch, pieces: tuple[int, ...]
) -> None:
    for place, side in enumerate(stage.sides):
        known = match.side_inputs.get((stage.number, place))
        for window in () if known is None else known.windows:
            restore_side_input_window(
                state, stage, side, window.window, [pieces[place] for place in window.pieces]
            )


def _restore_shard(
    state: SchedulerState, stage: StageState, shard: SavedShard, *, wake: bool
) -> None:
    summary = shard.summary
    if wake and summary != EMPTY_SUMMARY:
        summary = attrs.evolve(summary, next_event_timer=MIN_TIMESTAMP)
    get_shard_state(stage, shard.shard).watermark = shard.watermark
    replace_shard_summary(state, stage, shard.shard, summary)
    mark_shard_for_bundle_check(state, stage, shard.shard)


def _restore_work(
    state: SchedulerState, stage: StageState, work: SavedWork, pieces: tuple[int, ...]
) -> None:
    """Restores work of a stage. The stage's current side inputs decide what the work waits for."""
    piece = pieces[work.piece]
    windows = state.pieces[piece].data.facts.windows if work.windows is None else work.windows
    for item in create_pending_work(
        state,
        stage,
        piece,
        windows,
        watermark=work.watermark,
        estimator_state=work.estimator_state,
        residual=work.residual,
        truncated=work.truncated,
    ):
        if work.due is not None and work.due > state.now:
            delay_work(state, stage, item, work.due - state.now)
        else:
            queue_pending_work(state, stage, item)


def _deliver_root_data(state: SchedulerState, roots: Iterable[Output], match: GraphMatch) -> None:
    """Delivers the data of roots to new stages and new side inputs only."""
    for root in roots:
        node = state.collections[root.collection].node
        piece = add_data_piece(state, root.data)
        for number, place in node.side_consumers:
            if (number, place) not in match.side_inputs:
                stage = state.stages[number]
                freed = add_side_input_data(state, stage, stage.sides[place], piece)
                queue_unblocked_work(state, stage, freed)
        for number in node.consumers:
            if number not in match.stages:
                stage = state.stages[number]
                for work in create_pending_work(state, stage, piece, root.data.facts.windows):
                    queue_pending_work(state, stage, work)
        drop_data_piece_reference(state, piece)
