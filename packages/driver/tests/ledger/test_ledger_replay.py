"""Tests that a ledger (committed state of a job) restored from a snapshot, or from the same journal
entries, equals the original ledger.
"""

from __future__ import annotations

from typing import Any

import pytest
from beam_runner_engine.scheduler.events import BundleFailed, FailureKind, Residual, Tick
from beam_runner_engine.scheduler.specs import Pauses
from beam_runner_runtime.channel.attempts import Attempt, FailedStep
from ledger_jobs import (
    CHAIN,
    WAITING,
    Job,
    failed,
    keyed_job,
    rows,
    segments,
    split,
)

from beam_runner_driver.ledger.journal_codec import DecodedJournal, decode_entries, encode_entries
from beam_runner_driver.ledger.ledger import JobLedger


def history() -> Job:
    """Returns a job with all kinds of entries: failures, splits, residuals, late and duplicate entries."""
    job = Job(CHAIN)
    (first,) = job.open("read")
    job.apply(failed(first))
    job.commit(first, rows("late", 0))
    job.commit(*job.open("read"), rows("f", 0), rows("f", 1), rows("g", 0))
    one, two, three = job.open("end")
    primary = split(job, one, 3)
    job.apply(Tick(500))
    job.commit(two, residuals=(Residual(two.inputs[0].data, delay=700),))
    job.commit(two)
    job.commit(primary)
    job.apply(failed(three))
    job.apply(Tick(2000))
    return job


def keyed_history() -> Job:
    job, bundle = keyed_job()
    job.commit(bundle, state=segments("s1"), summary=WAITING)
    job.commit(*job.open("more"), rows("g", 0, shard=3), rows("g", 1, shard=1))
    job.commit(job.open("count")[0], state=segments("s2"), summary=WAITING)
    return job


def failed_history() -> Job:
    job = Job(CHAIN, outside_attempts=2)
    (first,) = job.open("read")
    job.apply(failed(first, cause="first"))
    job.apply(failed(*job.open("read"), cause="second"))
    assert job.ledger.end is not None
    return job


def paused_history() -> Job:
    """Returns failures of every kind with a pause, and bundles that continue meanwhile."""
    job = Job(CHAIN, user_attempts=None, pauses=Pauses(1_000, 4_000))
    (first,) = job.open("read")
    job.commit(first, rows("f", 0), rows("f", 1), rows("g", 0))
    one, two, three = job.open("end")
    detail = FailedStep("step", "ValueError: mine", "element")
    job.apply(BundleFailed(one.number, 1, "mine", FailureKind.USER, detail=detail))
    job.apply(BundleFailed(two.number, 1, "away", FailureKind.UNAVAILABLE, "the store"))
    job.commit(three)
    job.apply(Tick(1_000))
    for bundle in job.open("end"):
        job.apply(failed(bundle, FailureKind.USER))
    job.apply(Tick(2_500))
    return job


def look(ledger: JobLedger) -> dict[str, Any]:
    """Returns all data that a server reads from a ledger."""
    return {
        "open": ledger.open_bundles,
        "retries": ledger.list_retried_bundles(),
        "opened": ledger.list_oldest_opening_times(),
        "awaited": [ledger.is_open(Attempt.from_bundle(b)) for b in ledger.open_bundles],
        "wake": ledger.next_wake,
        "end": ledger.end,
        "last failure": ledger.last_failure,
        "files": sorted(ledger.list_needed_files()),
        "state": [ledger.list_state_segments(bundle) for bundle in ledger.open_bundles],
        "metrics": sorted(ledger.metrics.infos(), key=repr),
    }


def restored(snapshot: bytes) -> JobLedger:
    """Returns the ledger restored from a snapshot."""
    return JobLedger.from_state(DecodedJournal(snapshot).ledger)


@pytest.mark.parametrize("make", [history, keyed_history, failed_history, paused_history])
def test_ledger_replay_from_any_entry_produces_same_ledger(make: Any) -> None:
    job = make()
    expected = look(job.ledger)
    expected_garbage = sorted(job.ledger.take_unneeded_files())
    ledger = restored(job.begun)
    for entry in job.entries:
        snapshot = ledger.encode_snapshot()
        (kept,) = decode_entries(encode_entries([entry]))
        assert kept == entry
        ledger.apply_journal_entry(kept)
        again = restored(snapshot)
        again.apply_journal_entry(entry)
        assert look(again) == look(ledger)
    assert look(ledger) == expected
    assert sorted(ledger.take_unneeded_files()) == expected_garbage


@pytest.mark.parametrize("make", [history, keyed_history, paused_history])
def test_ledger_replay_produces_same_commands(make: Any) -> None:
    job = make()
    ledgers = [restored(job.begun) for _ in range(2)]
    for entry in job.entries:
        one, other = (ledger.apply_journal_entry(entry) for ledger in ledgers)
        assert one == other
