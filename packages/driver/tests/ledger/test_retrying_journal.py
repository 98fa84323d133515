"""Tests of a running job that waits while the disk of its journal is full or unavailable."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from beam_runner_storage.journal.errors import JournalFenced, JournalUnavailable
from beam_runner_storage.unavailable import ExternalSystemUnavailable

from beam_runner_driver.ledger import retrying_journal
from beam_runner_driver.ledger.retrying_journal import Outage, RetryingJournal

AWAY = ExternalSystemUnavailable("the disk of /state", "disk is full")


class Journal:
    """A journal that fails `times` times."""

    job_id = "job"

    def __init__(self, failures: int, error: Exception | None = None) -> None:
        self.failures = failures
        self.error = error or JournalUnavailable(AWAY)
        self.committed: list[bytes] = []
        self.snapshots: list[bytes] = []

    def append_entries(self, entries: Sequence[bytes]) -> None:
        self._work()
        self.committed += entries

    def store_snapshot(self, state: bytes) -> None:
        self._work()
        self.snapshots.append(state)

    def _work(self) -> None:
        if self.failures:
            self.failures -= 1
            raise self.error


class Clock:
    """A clock that advances during waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, goes_on: int = 1_000) -> None:
        self.now = 100.0
        self.outages: list[Outage] = []
        self.left = goes_on
        monkeypatch.setattr(retrying_journal.time, "monotonic", lambda: self.now)

    def wait(self, outage: Outage) -> bool:
        self.outages.append(outage)
        self.now = outage.next_try
        self.left -= 1
        return self.left > 0


def patient(journal: Any, clock: Clock, limit: float | None) -> RetryingJournal:
    return RetryingJournal(journal, limit, clock.wait)


def test_journal_append_on_full_disk_waits_with_growing_pauses_and_commits_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    journal, clock = Journal(8), Clock(monkeypatch)
    patient(journal, clock, None).append_entries([b"1", b"2"])
    assert journal.committed == [b"1", b"2"]
    times = [100.0, *(outage.next_try for outage in clock.outages)]
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert pauses == [1, 2, 4, 8, 15, 15, 15, 15]
    assert {outage.since for outage in clock.outages} == {100.0}
    assert clock.outages[0].away == AWAY


def test_journal_append_on_full_disk_beyond_limit_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    journal, clock = Journal(1_000), Clock(monkeypatch)
    with pytest.raises(JournalUnavailable, match="the disk of /state is unavailable: disk is full"):
        patient(journal, clock, 20).append_entries([b"1"])
    assert 120 <= clock.now < 136


def test_journal_append_on_full_disk_of_ending_job_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    journal, clock = Journal(1_000), Clock(monkeypatch, goes_on=3)
    with pytest.raises(JournalUnavailable):
        patient(journal, clock, None).append_entries([b"1"])
    assert len(clock.outages) == 3


def test_journal_append_with_other_error_raises_immediately(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(monkeypatch)
    with pytest.raises(JournalFenced):
        patient(Journal(1, JournalFenced("another server")), clock, None).append_entries([b"1"])
    assert clock.outages == []


def test_journal_snapshot_on_full_disk_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    journal, clock = Journal(1), Clock(monkeypatch)
    kept = patient(journal, clock, None)
    monkeypatch.setattr(retrying_journal, "_ENTRIES_PER_SNAPSHOT", 3)
    for added, state in ((2, b"early"), (1, b"no room"), (1, b"early"), (2, b"due")):
        kept.write_due_snapshot(added, lambda state=state: state)  # type: ignore[misc]
    assert journal.snapshots == [b"due"]
    assert clock.outages == []
