"""Ledger (committed state) of a job that replaces a running job, as a pure function of both plans
and the old ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import attrs
from beam_runner_data.rows.refs import FileRows, InlineRows, KeyShare, RowsRef
from beam_runner_engine.scheduler.capture import capture_job_state
from beam_runner_engine.scheduler.division import divide_shards
from beam_runner_engine.scheduler.kept_state import Identities, SavedJobState
from beam_runner_engine.scheduler.refusals import TransferRefused
from beam_runner_engine.scheduler.transfer import transfer_job_state
from beam_runner_engine.scheduler.transitions import Phase
from beam_runner_model.updates import (
    Finding,
    FindingReason,
    FindingSubject,
    FindingVerdict,
    PlanCorrespondence,
    StoredStageData,
    UpdateInstructions,
    UpdateReport,
)
from beam_runner_planner.plan import JobPlan
from beam_runner_planner.updates.compare import PlanComparison, compare_plans

from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.scheduling import make_root_outputs, make_scheduler_graph
from beam_runner_driver.tuning import JobTuning
from beam_runner_driver.updates.next_ledger import (
    divide_state_segments,
    make_successor_ledger,
    rename_ledger_files,
)
from beam_runner_driver.updates.quarantine_successors import transfer_quarantine_records

_ENDED_EARLY = (Phase.FAILED, Phase.CANCELLED)


@attrs.frozen
class SuccessorJob:
    """Job that replaces a running job.

    Attributes:
        plan: plan of the job.
        tuning: limits and policies of the job. Its `shards` has no effect: `key_shards` decides.
        wishes: options by which the user accepts the loss of state.
        key_shards: number of key shards in the options of the job; None to use the number of the
            old job.
    """

    plan: JobPlan
    tuning: JobTuning
    wishes: UpdateInstructions = attrs.field(factory=UpdateInstructions)
    key_shards: int | None = None


def compare_with_ledger(
    ledger: JobLedger, job: SuccessorJob, *, is_savepoint: bool = False
) -> PlanComparison:
    """Compares a job, with its current state, with the job that continues its state, and reports
    incompatible differences.

    Args:
        ledger: committed state of the job.
        job: the job that continues.
        is_savepoint: whether the state is from a savepoint, so that the old job can have failed or
            been cancelled.
    """
    found: list[Finding] = []
    phase = ledger.scheduler_state.phase
    if phase is Phase.DRAINING:
        found.append(
            Finding(FindingVerdict.REFUSED, FindingReason.JOB_DRAINING, FindingSubject.JOB)
        )
    elif phase is not Phase.RUNNING and not (is_savepoint and phase in _ENDED_EARLY):
        found.append(
            Finding(FindingVerdict.REFUSED, FindingReason.JOB_NOT_RUNNING, FindingSubject.JOB)
        )
    comparison = compare_plans(ledger.plan, job.plan, job.wishes, _list_stage_contents(ledger))
    if job.key_shards not in (None, ledger.shards):
        found.append(_compare_key_shards(ledger.shards, job.key_shards or 0))
    report = UpdateReport((*found, *comparison.report.findings))
    return PlanComparison(report, comparison.correspondence)


def _compare_key_shards(before: int, after: int) -> Finding:
    """Returns a finding if the old and the new job have different numbers of key shards (hash
    partitions of keys). The new number must be a multiple of the old number.
    """
    verdict = (
        FindingVerdict.KEPT if after > before and after % before == 0 else FindingVerdict.REFUSED
    )
    return Finding(
        verdict, FindingReason.KEY_SHARDS, FindingSubject.JOB, before=str(before), after=str(after)
    )


def make_next_ledger(
    ledger: JobLedger,
    job: SuccessorJob,
    correspondence: PlanCorrespondence,
    rename: Callable[[str], str] | None = None,
) -> JobLedger:
    """Returns the ledger (committed state) of a job that continues with the state of another job.

    The open bundles of the other job are dropped, and their input is processed again.

    Args:
        ledger: committed state of the other job.
        job: the job that continues.
        correspondence: pairs of stages and buffers of the two plans that correspond.
        rename: function that returns the name of a copied data file; None if the job uses the
            original files.

    Raises:
        TransferRefused: If the new plan can't continue with the state.
    """
    state, old, plan = ledger.to_state(), ledger.plan, job.plan
    kept = capture_job_state(ledger.scheduler_state, _list_identities(old))
    if rename is not None:
        kept = _rename_files(kept, rename)
        state = rename_ledger_files(state, rename)
    of_stages = {new: old for old, new in correspondence.stages.items()}
    woken = frozenset(of_stages[stage] for stage in correspondence.dropped_timers)
    shards = job.key_shards or ledger.shards
    if shards != ledger.shards:
        kept = divide_shards(kept, ledger.shards, shards, partial(_select_keys_of_shard, shards))
        state = divide_state_segments(state, shards)
        # If an update splits a key shard, each part starts with the summary (holds and timers) of
        # the complete shard. The first bundle of the part replaces this summary.
        woken = frozenset(stage.identity for stage in kept.stages)
    scheduler, commands = transfer_job_state(
        kept,
        make_scheduler_graph(plan),
        _match_identities(plan, correspondence, of_stages),
        make_root_outputs(plan),
        limits=job.tuning.limits,
        policy=job.tuning.policy,
        dropped=correspondence.dropped_stages,
        woken=woken,
    )
    new_ids = {stage.identity: name for name, stage in plan.stages.items()}
    continued = {
        name: new_ids[correspondence.stages[stage.identity]]
        for name, stage in old.stages.items()
        if stage.identity in correspondence.stages
    }
    dropped = {new_ids[stage]: names for stage, names in correspondence.dropped_states.items()}
    files = state.quarantine.files
    quarantined = transfer_quarantine_records(files, old, plan, correspondence.stages)
    return make_successor_ledger(state, plan, scheduler, commands, continued, dropped, quarantined)


def _match_identities(
    plan: JobPlan, correspondence: PlanCorrespondence, of_stages: Mapping[str, str]
) -> Identities:
    """Returns the identity in the old plan for each stage and buffer of the new plan that has a
    counterpart there.

    `of_stages` maps identities of new stages to identities of old stages.
    """
    of_collections = {new: old for old, new in correspondence.collections.items()}
    sides = {new: old for old, new in correspondence.side_inputs.items()}
    return Identities(
        stages={
            name: of_stages[stage.identity]
            for name, stage in plan.stages.items()
            if stage.identity in of_stages
        },
        collections={
            name: of_collections[buffer.identity]
            for name, buffer in plan.buffers.items()
            if buffer.identity in of_collections
        },
        side_inputs={
            (name, use.name): sides[stage.identity, use.name]
            for name, stage in plan.stages.items()
            for use in stage.side_inputs
            if (stage.identity, use.name) in sides
        },
    )


def _rename_files(kept: SavedJobState, rename: Callable[[str], str]) -> SavedJobState:
    """Returns the transferred scheduler state, in which all data refers to files by their new names."""

    def rename_reference(ref: Any) -> Any:
        if isinstance(ref, FileRows):
            return attrs.evolve(ref, path=rename(ref.path))
        return attrs.evolve(ref, name=rename(ref.name)) if isinstance(ref, InlineRows) else ref

    pieces = tuple(
        attrs.evolve(piece, data=attrs.evolve(piece.data, ref=rename_reference(piece.data.ref)))
        for piece in kept.pieces
    )
    return attrs.evolve(kept, pieces=pieces)


def _select_keys_of_shard(shards: int, ref: RowsRef, shard: int) -> RowsRef:
    """Returns a reference to those elements of the data that belong to one key shard."""
    return attrs.evolve(ref, share=KeyShare(shard, shards))


def list_pausable_stages(plan: JobPlan) -> tuple[str, ...]:
    """Returns the stages whose work can wait for the new job: sources and other splittable DoFns."""
    return tuple(name for name, stage in plan.stages.items() if stage.splittable)


def _list_identities(plan: JobPlan) -> Identities:
    return Identities(
        {name: stage.identity for name, stage in plan.stages.items()},
        {name: buffer.identity for name, buffer in plan.buffers.items()},
    )


def _list_stage_contents(ledger: JobLedger) -> Mapping[str, StoredStageData]:
    """Returns the data of each stage. Empty if the state can't be transferred; the comparison of
    the plans then reports the reason.
    """
    try:
        kept = capture_job_state(ledger.scheduler_state, _list_identities(ledger.plan))
    except TransferRefused:
        return {}
    by_identity = {stage.identity: stage for stage in kept.stages}
    kept_stages = {name: by_identity[one.identity] for name, one in ledger.plan.stages.items()}
    sizes: dict[str, int] = {}
    for (stage, _), segments in ledger.list_all_state_segments().items():
        sizes[stage] = sizes.get(stage, 0) + sum(segment.size for segment in segments)
    complete = {one.spec.name for one in ledger.scheduler_state.stages if one.complete}
    return {
        name: StoredStageData(
            elements=sum(kept.pieces[work.piece].data.facts.count for work in stage.work),
            state_bytes=sizes.get(name, 0),
            wakes=len(stage.waiting_shards),
            complete=name in complete,
        )
        for name, stage in kept_stages.items()
    }
