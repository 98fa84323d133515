"""Tests of the ledger (committed state) of a job: a commit counts once, files without readers are
deleted, and replay is deterministic.
"""

from __future__ import annotations

import attrs
import pytest
from beam_runner_data.rows.refs import FileRows
from beam_runner_engine.scheduler.commands import Bundle, FailJob, FinishJob, Outcome
from beam_runner_engine.scheduler.events import Cancel, FailureKind, Residual, Tick
from beam_runner_engine.scheduler.specs import Pauses
from beam_runner_model.buffers import BufferKind, SideInputUse
from beam_runner_model.times import MAX_TIMESTAMP
from beam_runner_runtime.channel.attempts import Attempt
from ledger_jobs import (
    CHAIN,
    READERS,
    WAITING,
    Job,
    committed,
    failed,
    keyed_job,
    reply,
    rows,
    segments,
    split,
)
from sample_buffers import buffer
from small_plans import plan_of, stage

from beam_runner_driver.ledger.journal_codec import DecodedJournal, Tally
from beam_runner_driver.ledger.ledger import JobLedger

# Commits count once.


def test_ledger_counts_duplicate_commit_once() -> None:
    job = Job(READERS)
    (first,) = job.open("read")
    job.commit(first, rows("f", 0))
    state = sorted(job.ledger.list_needed_files()), job.ledger.open_bundles
    assert job.ledger.apply_journal_entry(reply(first, rows("f", 0))) == ()
    assert job.ledger.apply_journal_entry(reply(first, rows("other", 0))) == ()
    assert (sorted(job.ledger.list_needed_files()), job.ledger.open_bundles) == state
    assert committed(job.ledger) == 1
    assert job.ledger.take_unneeded_files() == []


def test_ledger_ignores_commit_of_abandoned_attempt() -> None:
    job = Job(READERS)
    (first,) = job.open("read")
    job.apply(failed(first))
    job.commit(first, rows("late", 0))
    assert committed(job.ledger) == 0
    assert list(job.ledger.list_needed_files()) == []
    (second,) = job.open("read")
    assert (second.number, second.attempt) == (first.number, 2)
    job.commit(second, rows("f", 0))
    job.commit(first, rows("late", 0))
    assert committed(job.ledger) == 1
    assert list(job.ledger.list_needed_files()) == ["f"]


def test_ledger_ignores_late_failure() -> None:
    job = Job(READERS)
    (first,) = job.open("read")
    job.commit(first, rows("f", 0))
    before = job.ledger.open_bundles
    job.apply(failed(first))
    assert job.ledger.open_bundles == before
    assert job.ledger.last_failure is None


def test_ledger_ignores_commit_after_end_of_job() -> None:
    job = Job(READERS)
    (first,) = job.open("read")
    job.apply(Cancel())
    job.commit(first, rows("f", 0))
    assert job.ledger.end == FinishJob(Outcome.CANCELLED)
    assert committed(job.ledger) == 0
    assert list(job.ledger.list_needed_files()) == []


def test_ledger_ignores_bundle_failure_after_end_of_job() -> None:
    job = Job(READERS, outside_attempts=1)
    (first,) = job.open("read")
    job.apply(failed(first))
    assert isinstance(job.ledger.end, FailJob)
    job.commit(first, rows("f", 0))
    assert committed(job.ledger) == 0
    assert list(job.ledger.list_needed_files()) == []


def test_ledger_of_job_without_open_bundles_is_done() -> None:
    job = Job(READERS)
    job.commit(*job.open("read"), rows("f", 0))
    for name in ("one", "two"):
        assert job.ledger.end is None
        job.commit(*job.open(name))
    assert job.ledger.end == FinishJob(Outcome.DONE)
    assert committed(job.ledger) == 3


# Files.


def test_ledger_retains_file_until_its_last_reader_finishes() -> None:
    job = Job(READERS)
    job.commit(*job.open("read"), rows("f", 0))
    assert list(job.ledger.list_needed_files()) == ["f"]
    job.commit(*job.open("one"))
    assert job.ledger.take_unneeded_files() == []
    job.commit(*job.open("two"))
    assert list(job.ledger.list_needed_files()) == []
    assert job.ledger.take_unneeded_files() == ["f"]
    assert job.ledger.take_unneeded_files() == []


def test_ledger_retains_file_until_all_its_rows_are_read() -> None:
    job = Job(CHAIN)
    job.commit(*job.open("read"), rows("f", 0), rows("f", 1), rows("f", 2))
    bundles = job.open("end")
    assert len(bundles) == 3
    for bundle in bundles[:2]:
        job.commit(bundle)
        assert job.ledger.take_unneeded_files() == []
    job.commit(bundles[2])
    assert job.ledger.take_unneeded_files() == ["f"]


def test_ledger_releases_file_without_reader_immediately() -> None:
    plan = plan_of([stage("read", None, {"out": "b"})], [buffer("b", BufferKind.STORED)])
    job = Job(plan)
    job.commit(*job.open("read"), rows("f", 0), rows("f", 1), rows("g", 0))
    assert sorted(job.ledger.take_unneeded_files()) == ["f", "g"]
    assert list(job.ledger.list_needed_files()) == []


def test_ledger_retains_files_of_side_inputs() -> None:
    use = SideInputUse("two", "side", "b")
    plan = plan_of(
        [stage("read", None, {"out": "b"}), stage("two", None, side_inputs=(use,))],
        [buffer("b", BufferKind.SIDE_ITERABLE)],
    )
    job = Job(plan)
    job.commit(*job.open("read"), rows("f", 0))
    (reader,) = job.open("two")
    assert [data.ref.path for side in reader.side_inputs for data in side.data] == ["f"]
    assert job.ledger.take_unneeded_files() == []
    job.commit(reader)
    assert job.ledger.take_unneeded_files() == ["f"]


@pytest.mark.parametrize("order", ["primary first", "residual first", "primary again"])
def test_ledger_retains_file_for_all_parts_of_a_split(order: str) -> None:
    job = Job(CHAIN)
    job.commit(*job.open("read"), rows("f", 0))
    primary = split(job, *job.open("end"), 4)
    assert primary.inputs[0].data.ref == FileRows("f", (0,), 0, 4)
    (residual,) = (one for one in job.open("end") if one.number != primary.number)
    assert residual.inputs[0].data.ref == FileRows("f", (0,), 4, 10)
    if order == "primary again":
        job.apply(failed(primary))
        primary = attrs.evolve(primary, attempt=2)
        assert primary in job.open("end")
    parts = [residual, primary] if order == "residual first" else [primary, residual]
    job.commit(parts[0])
    assert job.ledger.take_unneeded_files() == []
    assert list(job.ledger.list_needed_files()) == ["f"]
    job.commit(parts[1])
    assert job.ledger.take_unneeded_files() == ["f"]
    assert job.ledger.end == FinishJob(Outcome.DONE)


def test_ledger_releases_file_with_split_pieces_once() -> None:
    job = Job(CHAIN)
    job.commit(*job.open("read"), rows("f", 0), rows("f", 1))
    one, _ = job.open("end")
    split(job, one, 4)
    garbage = []
    while bundles := job.open("end"):
        assert list(job.ledger.list_needed_files()) == ["f"]
        job.commit(bundles[0])
        garbage += job.ledger.take_unneeded_files()
    assert garbage == ["f"]


def test_ledger_retains_no_file_for_inline_residuals() -> None:
    job = Job(CHAIN)
    job.commit(*job.open("read"), rows("f", 0))
    (bundle,) = job.open("end")
    job.commit(bundle, residuals=(Residual(bundle.inputs[0].data, delay=10),))
    assert job.ledger.take_unneeded_files() == []
    job.apply(Tick(1000))
    job.commit(*job.open("end"))
    assert job.ledger.take_unneeded_files() == ["f"]


def test_ledger_retains_file_of_residual() -> None:
    """For example, the position of a stream: it replaces the previous file, and a snapshot restores it completely."""
    job = Job(CHAIN)
    job.commit(*job.open("read"), rows("f", 0))
    (bundle,) = job.open("end")
    job.commit(bundle, residuals=(Residual(rows("p1", 0), delay=10),))
    assert job.ledger.take_unneeded_files() == ["f"]
    assert list(job.ledger.list_needed_files()) == ["p1"]
    job.apply(Tick(1000))
    (bundle,) = job.open("end")
    job.commit(bundle, residuals=(Residual(rows("p2", 0), delay=10),))
    assert job.ledger.take_unneeded_files() == ["p1"]
    job.apply(Tick(2000))
    (bundle,) = job.open("end")
    job.commit(bundle, residuals=(Residual(bundle.inputs[0].data),))
    assert list(
        JobLedger.from_state(
            DecodedJournal(job.ledger.encode_snapshot()).ledger
        ).list_needed_files()
    ) == ["p2"]
    job.commit(*job.open("end"))
    assert job.ledger.take_unneeded_files() == ["p2"]


# State.


def test_ledger_opens_bundle_for_residual_of_key_shard() -> None:
    job, bundle = keyed_job()
    assert job.ledger.list_state_segments(bundle) == ()
    job.commit(bundle, state=segments("s1"), summary=WAITING)
    job.commit(*job.open("more"), rows("g", 0, shard=3), rows("g", 1, shard=1))
    three, one = sorted(job.open("count"), key=lambda b: -(b.shard or 0))
    assert job.ledger.list_state_segments(three) == segments("s1")
    assert job.ledger.list_state_segments(one) == ()
    assert set(job.ledger.list_needed_files()) == {"g", "s1"}


def test_ledger_releases_replaced_state_segments() -> None:
    job, bundle = keyed_job()
    job.commit(bundle, state=segments("s1", "s2"), summary=WAITING)
    job.ledger.take_unneeded_files()
    job.commit(*job.open("more"), rows("g", 0, shard=3))
    (again,) = job.open("count")
    job.apply(reply(again, state=segments("s2", "s3"), summary=WAITING))
    assert "s1" in job.ledger.take_unneeded_files()


def test_ledger_state_is_unchanged_after_failed_attempt() -> None:
    job, bundle = keyed_job()
    job.commit(bundle, state=segments("s1"), summary=WAITING)
    job.commit(*job.open("more"), rows("g", 0, shard=3))
    (again,) = job.open("count")
    job.apply(failed(again))
    job.apply(reply(again, state=segments("late")))
    (third,) = job.open("count")
    assert job.ledger.list_state_segments(third) == segments("s1")


def test_ledger_state_is_unchanged_after_bundle_without_changes() -> None:
    job, bundle = keyed_job()
    job.commit(bundle, state=segments("s1"), summary=WAITING)
    job.commit(*job.open("more"), rows("g", 0, shard=3))
    (again,) = job.open("count")
    job.commit(again, state=None, summary=WAITING)
    assert "s1" in set(job.ledger.list_needed_files())


def test_ledger_releases_state_of_finished_stage() -> None:
    job, bundle = keyed_job()
    job.commit(bundle, state=segments("s1"), summary=WAITING)
    job.commit(*job.open("more"))
    (last,) = job.open("count")
    assert last.end_watermark == MAX_TIMESTAMP
    job.commit(last, state=segments("s1", "s2"))
    assert job.ledger.end == FinishJob(Outcome.DONE)
    assert list(job.ledger.list_needed_files()) == []
    assert {"s1", "s2"} <= set(job.ledger.take_unneeded_files())


# Failures.


def test_ledger_last_failure_is_failure_that_ended_job() -> None:
    """Other bundles can break at the same time, but they aren't the reason of the job's failure."""
    job = Job(CHAIN)
    job.commit(*job.open("read"), rows("f", 0), rows("f", 1))
    one, other = job.open("end")
    job.apply(failed(one, FailureKind.USER, "ValueError: mine"))
    assert isinstance(job.ledger.end, FailJob)
    job.apply(failed(other, FailureKind.OUTSIDE, "the worker process was lost"))
    assert job.ledger.last_failure is not None
    assert job.ledger.last_failure.cause == "ValueError: mine"


def test_ledger_last_failure_ignores_failure_after_end_of_job() -> None:
    job = Job(CHAIN)
    (bundle,) = job.open("read")
    job.apply(failed(bundle, cause="first"))
    (again,) = job.open("read")
    job.apply(failed(again, cause="second"))
    job.apply(failed(bundle, cause="first again"))
    assert job.ledger.last_failure is not None
    assert job.ledger.last_failure.cause == "second"


def paused_job() -> tuple[Job, Bundle]:
    """Returns a job whose only bundle has failed and runs again one second later."""
    job = Job(CHAIN, user_attempts=None, pauses=Pauses(1_000, 1_000))
    (bundle,) = job.open("read")
    job.apply(failed(bundle, FailureKind.USER))
    return job, bundle


def test_ledger_does_not_list_bundle_in_retry_pause_as_open() -> None:
    job, bundle = paused_job()
    assert job.ledger.open_bundles == ()
    assert not job.ledger.is_open(Attempt(bundle.number, 1))
    assert not job.ledger.is_open(Attempt(bundle.number, 2))
    assert job.ledger.list_oldest_opening_times() == {"read": bundle.processing_time}
    job.apply(Tick(1_000))
    assert job.ledger.is_open(Attempt(bundle.number, 2))


def test_ledger_ignores_late_reply_to_bundle_in_retry_pause() -> None:
    job, bundle = paused_job()
    job.commit(bundle, rows("f", 0))
    assert committed(job.ledger) == 0
    assert list(job.ledger.list_needed_files()) == []
    job.apply(Tick(1_000))
    job.commit(*job.open("read"), rows("g", 0))
    assert committed(job.ledger) == 1


def test_ledger_does_not_count_outage_as_failed_attempt() -> None:
    job = Job(CHAIN)
    (bundle,) = job.open("read")
    job.apply(failed(bundle, FailureKind.UNAVAILABLE))
    assert job.ledger.tallies["read"] == Tally(interrupted=1)
    job.apply(Tick(1_000))
    assert job.ledger.tallies["read"] == Tally(retried=1, interrupted=1)


def test_ledger_retains_files_of_open_bundles_after_job_failure() -> None:
    job = Job(READERS)
    job.commit(*job.open("read"), rows("f", 0))
    job.apply(failed(*job.open("one"), FailureKind.USER))
    assert isinstance(job.ledger.end, FailJob)
    assert list(job.ledger.list_needed_files()) == ["f"]
    assert job.ledger.take_unneeded_files() == []
