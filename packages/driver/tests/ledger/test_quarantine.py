"""Tests of the quarantine of a job (records of elements that always fail): its part of the commit,
its limits, and its files after a restart.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pyarrow.parquet as pq
import pytest
from beam_runner_engine.scheduler.commands import Bundle
from beam_runner_engine.scheduler.events import BundleFailed, FailureKind, Tick
from beam_runner_model.quarantine import QuarantinedUnit, QuarantinedUnitKind
from beam_runner_runtime.channel.attempts import Attempt, FailedStep
from beam_runner_runtime.clock import ProcessingClock
from beam_runner_runtime.quarantine_options import QUARANTINE_LIMIT, QUARANTINE_PER_HOUR
from beam_runner_runtime.shutdown.limits import LIMITS
from beam_runner_storage.stores.folder import FolderStore
from beam_runner_storage.stores.ports import StoreError
from beam_runner_storage.stores.spec import StoreSpec
from ledger_jobs import READERS, Job, failed, reply, rows

from beam_runner_driver.coordination.orders import WorkerOrderFactory
from beam_runner_driver.ledger.job_folder import JobFolder
from beam_runner_driver.ledger.journal_codec import DecodedJournal
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.quarantine import QuarantineSettings
from beam_runner_driver.ledger.settings import JobSettings
from beam_runner_driver.quarantine.quarantine_files import QuarantineFiles
from beam_runner_driver.quarantine.quarantine_limits import refuse_excess_units

HOUR = 3_600_000


def unit(value: bytes = b"x") -> QuarantinedUnit:
    return QuarantinedUnit(
        QuarantinedUnitKind.ELEMENT,
        "Fails",
        "ValueError: x",
        "Trace",
        5,
        ("global",),
        "unknown 0",
        value,
        "c",
    )


def settings(folder: Path, limit: int = 5, per_hour: int = 5) -> QuarantineSettings:
    return QuarantineSettings(StoreSpec(str(folder)), (), 4, limit, per_hour)


def job_settings(folder: Path) -> JobSettings:
    files = JobFolder(StoreSpec(str(folder)))
    return JobSettings(files, 1, 1, 1, quarantine=settings(folder))


def isolating(bundle: Bundle, *values: bytes) -> Any:
    return attrs.evolve(reply(bundle), quarantined=tuple(map(unit, values)))


def running_job() -> tuple[Job, list[Bundle]]:
    """Returns a job with two open bundles that read the same data."""
    job = Job(READERS, user_attempts=None)
    job.commit(*job.open("read"), rows("f", 0))
    return job, [*job.open("one"), *job.open("two")]


def restored(ledger: JobLedger) -> JobLedger:
    return JobLedger.from_state(DecodedJournal(ledger.encode_snapshot()).ledger)


class Journal:
    """Journal that stores the last snapshot."""

    def __init__(self) -> None:
        self.snapshot = b""

    def write_snapshot(self, state: bytes) -> None:
        self.snapshot = state


class Reporter:
    """Reporter that stores messages."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def report_message(self, importance: Any, text: str) -> None:
        self.texts.append(text)


def test_quarantined_elements_are_part_of_the_commit_and_count_once() -> None:
    job, (bundle, _) = running_job()
    job.apply(isolating(bundle, b"a", b"b"))
    job.apply(isolating(bundle, b"a", b"b"))
    state = restored(job.ledger).quarantine
    assert state == job.ledger.quarantine
    assert (state.count, state.by_step) == (2, {"Fails": 2})
    ((name, units),) = state.pending.items()
    assert [one.value for one in units] == [b"a", b"b"]
    assert name == f"job-1/{bundle.number:010}-{bundle.attempt}.parquet"


def test_quarantined_elements_of_an_abandoned_attempt_are_ignored() -> None:
    job, (bundle, _) = running_job()
    job.apply(isolating(attrs.evolve(bundle, attempt=7), b"a"))
    assert job.ledger.quarantine.count == 0


def test_quarantine_capacity_is_the_smaller_limit_and_recovers_after_an_hour(
    tmp_path: Path,
) -> None:
    job, (one, two) = running_job()
    rules = settings(tmp_path, limit=3, per_hour=1)
    job.apply(isolating(one, b"a"))
    now = job.ledger.processing_time
    order = rules.make_quarantine_order(job.ledger.quarantine, now)
    assert (order.room, order.limit) == (0, QUARANTINE_PER_HOUR.name)
    order = rules.make_quarantine_order(job.ledger.quarantine, now + HOUR)
    assert (order.room, order.limit) == (1, QUARANTINE_PER_HOUR.name)
    job.apply(Tick(now + HOUR))
    job.apply(isolating(two, b"b", b"c"))
    order = rules.make_quarantine_order(job.ledger.quarantine, now + 3 * HOUR)
    assert (order.room, order.limit) == (0, QUARANTINE_LIMIT.name)


def test_quarantine_limit_applies_to_concurrent_bundles_together(tmp_path: Path) -> None:
    job, (one, two) = running_job()
    entries = [isolating(one, b"a", b"b"), isolating(two, b"c", b"d")]
    first, second = refuse_excess_units(settings(tmp_path, limit=3), job.ledger, entries)
    assert first is entries[0]
    assert (second.bundle, second.kind) == (two.number, FailureKind.USER)
    assert QUARANTINE_LIMIT.name in second.cause
    assert refuse_excess_units(settings(tmp_path, limit=4), job.ledger, entries) == entries
    job.apply(first)
    job.apply(second)
    assert job.ledger.quarantine.count == 2
    assert [retry.bundle.number for retry in job.ledger.list_retried_bundles()] == [two.number]


def test_order_for_next_attempt_names_elements_that_failed(tmp_path: Path) -> None:
    job, (bundle, _) = running_job()
    detail = FailedStep("Fails", "ValueError: x", isolated=((b"digest", 2),))
    job.apply(BundleFailed(bundle.number, bundle.attempt, "x", FailureKind.USER, detail=detail))
    job.apply(failed(job.ledger.get_open_bundle(Attempt(bundle.number, 2))))
    orders = WorkerOrderFactory(restored(job.ledger), ProcessingClock(), job_settings(tmp_path))
    order = orders.make_bundle_order(bundle)
    assert order.isolation is not None
    assert order.isolation.failures == detail.isolated
    assert orders.make_loop_order(1).isolation == attrs.evolve(order.isolation, failures=())


def write_until(files: QuarantineFiles, done: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not done():
        assert time.monotonic() < until
        files.write_pending_files()
        time.sleep(0.01)


def test_quarantine_files_contain_the_elements_of_commits(tmp_path: Path) -> None:
    job, (one, two) = running_job()
    job.apply(isolating(one, b"a", b"b"))
    files = QuarantineFiles(settings(tmp_path), job.ledger, journal := Journal())
    write_until(files, lambda: not job.ledger.quarantine.pending)
    job.apply(isolating(two, b"c"))
    files.finish(reporter := Reporter())
    tables = [pq.read_table(path).to_pylist() for path in sorted(tmp_path.rglob("*.parquet"))]
    assert [[row["element"] for row in table] for table in tables] == [[b"a", b"b"], [b"c"]]
    assert {row["step"] for table in tables for row in table} == {"Fails"}
    assert reporter.texts == []
    assert not DecodedJournal(journal.snapshot).ledger.quarantine.pending


def test_server_exit_before_snapshot_leads_to_one_quarantine_file(tmp_path: Path) -> None:
    job, (bundle, _) = running_job()
    job.apply(isolating(bundle, b"a"))
    before = restored(job.ledger)  # the state from which the next server continues
    files = QuarantineFiles(settings(tmp_path), job.ledger, Journal())
    write_until(files, lambda: not job.ledger.quarantine.pending)
    (first,) = tmp_path.rglob("*.parquet")
    content = first.read_bytes()
    files = QuarantineFiles(settings(tmp_path), before, Journal())
    write_until(files, lambda: not before.quarantine.pending)
    assert list(tmp_path.rglob("*.parquet")) == [first]
    assert first.read_bytes() == content
    assert before.quarantine.count == 1


def test_quarantine_waits_for_unavailable_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter((True, False))
    put = FolderStore.put_file

    def put_file(store: FolderStore, name: str, source: Path) -> None:
        if next(failures):
            raise StoreError("away")
        put(store, name, source)

    monkeypatch.setattr(FolderStore, "put_file", put_file)
    job, (bundle, _) = running_job()
    job.apply(isolating(bundle, b"a"))
    files = QuarantineFiles(settings(tmp_path), job.ledger, Journal())
    files.write_pending_files()
    assert job.ledger.quarantine.pending
    write_until(files, lambda: not job.ledger.quarantine.pending)
    assert len(list(tmp_path.rglob("*.parquet"))) == 1


def test_end_of_job_reports_missing_quarantine_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put_file(store: FolderStore, name: str, source: Path) -> None:
        raise StoreError("away")

    monkeypatch.setattr(FolderStore, "put_file", put_file)
    monkeypatch.setattr(LIMITS, "quarantine_seconds", 0.2)
    job, (bundle, _) = running_job()
    job.apply(isolating(bundle, b"a"))
    files = QuarantineFiles(settings(tmp_path), job.ledger, Journal())
    files.finish(reporter := Reporter())
    assert len(reporter.texts) == 1
    assert str(tmp_path) in reporter.texts[0]
