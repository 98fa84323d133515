"""Tests of the ledger (committed state) of a job that replaces another job: its files, its state
and its work.
"""

from __future__ import annotations

import attrs
import pytest
from beam_runner_data.rows.refs import KeyShare, Segment
from beam_runner_engine.scheduler.capture import capture_job_state
from beam_runner_engine.scheduler.kept_state import Identities, SavedJobState
from beam_runner_engine.scheduler.policy import DefaultPolicy
from beam_runner_engine.scheduler.refusals import TransferRefused
from beam_runner_engine.scheduler.specs import Limits
from beam_runner_model.updates import FindingReason, FindingVerdict, PlanCorrespondence
from beam_runner_planner.plan import JobPlan
from ledger_jobs import CHAIN, KEYED, WAITING, Job, keyed_job, reply, rows

from beam_runner_driver.ledger.journal_codec import DecodedJournal
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.tuning import JobTuning
from beam_runner_driver.updates.succession import (
    SuccessorJob,
    compare_with_ledger,
    list_pausable_stages,
    make_next_ledger,
)

TUNING = JobTuning(64, Limits(parallelism=3), DefaultPolicy())


def with_identities(plan: JobPlan) -> JobPlan:
    return attrs.evolve(
        plan,
        stages={
            name: attrs.evolve(one, identity=f"stage:{name}") for name, one in plan.stages.items()
        },
        buffers={
            name: attrs.evolve(one, identity=f"buffer:{name}") for name, one in plan.buffers.items()
        },
    )


def same_parts(plan: JobPlan, *left_out: str) -> PlanCorrespondence:
    stages = {one.identity: one.identity for one in plan.stages.values()}
    return PlanCorrespondence(
        {old: new for old, new in stages.items() if old not in left_out},
        {one.identity: one.identity for one in plan.buffers.values()},
    )


def with_segments(ledger: JobLedger, **segments: Segment) -> JobLedger:
    state = DecodedJournal(ledger.encode_snapshot()).ledger
    found = {(stage, 1): (segment,) for stage, segment in segments.items()}
    return JobLedger.from_state(attrs.evolve(state, segments=found))


def test_ledger_of_updated_job_has_files_and_unfinished_work_of_old_job() -> None:
    plan = with_identities(CHAIN)
    job = Job(plan)
    (read,) = job.open("read")
    job.commit(read, rows("a", 0))
    (end,) = job.open("end")
    following = make_next_ledger(job.ledger, SuccessorJob(plan, TUNING), same_parts(plan))
    (opened,) = following.open_bundles
    assert (opened.stage, opened.attempt) == ("end", 1)
    assert opened.number > end.number
    assert set(following.list_needed_files()) == set(job.ledger.list_needed_files()) == {"a"}
    assert following.take_unneeded_files() == []
    assert following.limits == TUNING.limits
    assert following.shards == job.ledger.shards
    assert job.ledger.open_bundles == (end,), "the old ledger is unchanged"


def test_ledger_of_updated_job_deletes_removed_stages_and_ignores_removed_states() -> None:
    plan = with_identities(KEYED)
    kept, gone = Segment("kept", 1), Segment("gone", 1)
    ledger = with_segments(Job(plan).ledger, count=kept, read=gone)
    found = attrs.evolve(
        same_parts(plan, "stage:read"),
        dropped_stages=frozenset({"stage:read"}),
        dropped_states={"stage:count": frozenset({"bag"})},
    )
    following = make_next_ledger(ledger, SuccessorJob(plan, TUNING), found)
    masked = attrs.evolve(kept, masked=("bag",))
    assert following.list_all_state_segments() == {("count", 1): (masked,)}
    assert "gone" in following.take_unneeded_files()


def test_update_that_would_lose_work_is_refused() -> None:
    plan = with_identities(CHAIN)
    with pytest.raises(TransferRefused):
        make_next_ledger(
            Job(plan).ledger, SuccessorJob(plan, TUNING), same_parts(plan, "stage:read")
        )


def test_ledger_of_updated_job_is_equal_after_restore_from_snapshot() -> None:
    plan = with_identities(CHAIN)
    job = Job(plan)
    (read,) = job.open("read")
    job.commit(read, rows("a", 0))
    following = make_next_ledger(job.ledger, SuccessorJob(plan, TUNING), same_parts(plan))
    snapshot = following.encode_snapshot()
    again = JobLedger.from_state(DecodedJournal(snapshot).ledger)
    assert again.encode_snapshot() == snapshot
    assert again.open_bundles == following.open_bundles


def test_update_and_rollback_return_to_the_same_state() -> None:
    plan, edited = with_identities(CHAIN), with_identities(CHAIN)
    job = Job(plan)
    (read,) = job.open("read")
    job.commit(read, rows("a", 0))
    updated = make_next_ledger(job.ledger, SuccessorJob(edited, TUNING), same_parts(plan))
    back = make_next_ledger(updated, SuccessorJob(plan, TUNING), same_parts(edited))

    def capture(ledger: JobLedger) -> SavedJobState:
        kept = capture_job_state(
            ledger.scheduler_state,
            Identities(
                {name: one.identity for name, one in plan.stages.items()},
                {name: one.identity for name, one in plan.buffers.items()},
            ),
        )
        # The numbers of bundles continue, because names of files contain them.
        return attrs.evolve(kept, next_bundle=0)

    assert capture(back) == capture(job.ledger)
    assert back.list_all_state_segments() == job.ledger.list_all_state_segments()
    assert set(back.list_needed_files()) == {"a"}
    assert [one.stage for one in back.open_bundles] == ["end"]


def with_keyed_work() -> tuple[JobPlan, JobLedger]:
    """Returns a ledger with a started bundle, and with state of key shard (hash partition) 3 of 4."""
    job, bundle = keyed_job()
    plan = with_identities(job.ledger.plan)
    state = DecodedJournal(job.ledger.encode_snapshot()).ledger
    found = {("count", 3): (Segment("old", 10), Segment("new", 20))}
    assert bundle.shard == 3
    return plan, JobLedger.from_state(attrs.evolve(state, plan=plan, segments=found))


def test_parts_of_divided_key_shard_have_its_work_and_state() -> None:
    plan, ledger = with_keyed_work()
    job = SuccessorJob(plan, TUNING, key_shards=12)
    following = make_next_ledger(ledger, job, same_parts(plan))
    assert following.shards == 12
    parts = {3: KeyShare(3, 12), 7: KeyShare(7, 12), 11: KeyShare(11, 12)}
    assert following.list_all_state_segments() == {
        ("count", part): (Segment("old", 10, share=share), Segment("new", 20, share=share))
        for part, share in parts.items()
    }
    bundles = [one for one in following.open_bundles if one.stage == "count"]
    assert {one.shard for one in bundles} == set(parts)
    for bundle in bundles:
        (one,) = bundle.inputs
        assert (one.data.ref.path, one.data.ref.share) == ("f", parts[bundle.shard or 0])
    assert sorted(following.list_needed_files()) == ["f", "new", "old"]
    undivided = make_next_ledger(ledger, SuccessorJob(plan, TUNING), same_parts(plan))
    watermarks = [
        [(one.input, one.output) for one in each.scheduler_state.stages]
        for each in (following, undivided)
    ]
    assert watermarks[0] == watermarks[1]


def test_files_of_divided_shard_stay_until_the_last_part_needs_them() -> None:
    plan, ledger = with_keyed_work()
    job = SuccessorJob(plan, TUNING, key_shards=8)
    following = make_next_ledger(ledger, job, same_parts(plan))
    following = JobLedger.from_state(DecodedJournal(following.encode_snapshot()).ledger)
    first, second = (one for one in following.open_bundles if one.stage == "count")
    following.apply_journal_entry(reply(first, state=(Segment("merged", 5),), summary=WAITING))
    assert following.take_unneeded_files() == []
    following.apply_journal_entry(reply(second, state=(Segment("other", 5),), summary=WAITING))
    assert sorted(following.take_unneeded_files()) == ["f", "new", "old"]


@pytest.mark.parametrize(
    ("after", "verdict"),
    [(None, None), (4, None), (8, FindingVerdict.KEPT), (12, FindingVerdict.KEPT)]
    + [(number, FindingVerdict.REFUSED) for number in (2, 3, 6)],
)
def test_number_of_key_shards_can_only_grow_by_a_multiple(
    after: int | None, verdict: FindingVerdict | None
) -> None:
    plan, ledger = with_keyed_work()
    report = compare_with_ledger(ledger, SuccessorJob(plan, TUNING, key_shards=after)).report
    found = [one for one in report.findings if one.reason is FindingReason.KEY_SHARDS]
    assert [one.verdict for one in found] == ([] if verdict is None else [verdict])
    assert all((one.before, one.after) == ("4", str(after)) for one in found)


def test_update_of_plan_without_stage_identities_is_refused() -> None:
    with pytest.raises(TransferRefused):
        make_next_ledger(Job(CHAIN).ledger, SuccessorJob(CHAIN, TUNING), PlanCorrespondence())


def test_stages_that_an_update_can_pause_are_splittable() -> None:
    assert list_pausable_stages(CHAIN) == ("end",)
    assert list_pausable_stages(KEYED) == ()
