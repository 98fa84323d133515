"""Ledger (committed state) of a job that continues with the state and the files of another job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import attrs
from beam_runner_data.rows.refs import KeyShare, Segment
from beam_runner_engine.scheduler.commands import Command
from beam_runner_engine.scheduler.division import list_new_key_shards
from beam_runner_engine.scheduler.state import SchedulerState
from beam_runner_planner.plan import JobPlan

from beam_runner_driver.ledger.journal_codec import LedgerState
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.quarantine import QuarantinedFile, QuarantineState


def rename_ledger_files(state: LedgerState, rename: Callable[[str], str]) -> LedgerState:
    """Returns a job's committed state that refers to copies of the files, with the names that
    `rename` returns.

    References in the scheduler's state aren't renamed. Units of a quarantine that have no file yet
    stay with the other job.
    """
    segments = {
        place: tuple(attrs.evolve(one, path=rename(one.path)) for one in found)
        for place, found in state.segments.items()
    }
    uses = {rename(path): count for path, count in state.uses.items()}
    return attrs.evolve(
        state,
        segments=segments,
        uses=uses,
        garbage=[],
        quarantine=QuarantineState(files=state.quarantine.files),
    )


def divide_state_segments(state: LedgerState, shards: int) -> LedgerState:
    """Returns a job's committed state with more key shards (hash partitions of keys): a multiple of
    the old number. Each new shard reads the state segments of the old shard that it is a part of.
    """
    segments = {
        (stage, part): tuple(
            attrs.evolve(segment, share=KeyShare(part, shards)) for segment in found
        )
        for (stage, shard), found in state.segments.items()
        for part in list_new_key_shards(shard, state.shards, shards)
    }
    return attrs.evolve(state, segments=segments, shards=shards)


def make_successor_ledger(
    old: LedgerState,
    plan: JobPlan,
    scheduler: SchedulerState,
    commands: Iterable[Command],
    stages: Mapping[str, str],
    dropped_states: Mapping[str, frozenset[str]],
    quarantined: Mapping[str, QuarantinedFile],
) -> JobLedger:
    """Returns the ledger (committed state) of a job that continues with the files of another job.

    Args:
        old: state of the other job's ledger.
        plan: plan of the new job.
        scheduler: state of the new job's scheduler, transferred from the other job's scheduler.
        commands: first commands of the new scheduler.
        stages: new IDs of stages whose state the new job continues, by old ID. The state of other
            stages is deleted.
        dropped_states: names of user states (StateSpecs) that the new job ignores, by new stage ID.
        quarantined: quarantined units of both jobs, with the stages of the new job.
    """
    segments, garbage = {}, list(old.garbage)
    for (stage, shard), found in old.segments.items():
        if stage in stages:
            new = stages[stage]
            segments[new, shard] = _mask_segment_states(found, dropped_states.get(new, frozenset()))
        else:
            garbage += [segment.path for segment in found]
    ledger = JobLedger.from_state(
        attrs.evolve(
            old,
            plan=plan,
            metrics=(),
            scheduler=scheduler,
            open={},
            uses=dict(old.uses),
            segments=segments,
            garbage=list(dict.fromkeys(garbage)),
            end=None,
            last_failure=None,
            tallies={},
            quarantine=QuarantineState(
                pending=dict(old.quarantine.pending), files=dict(quarantined)
            ),
        )
    )
    ledger.apply_commands(commands)
    return ledger


def _mask_segment_states(
    segments: tuple[Segment, ...], names: frozenset[str]
) -> tuple[Segment, ...]:
    """Returns state segments whose readers ignore the user states with these names."""
    return tuple(
        attrs.evolve(segment, masked=tuple(sorted({*segment.masked, *names})))
        for segment in segments
    )
