"""Tests that later versions read the journal of a job.

``tests/older_versions`` has state folders of earlier versions, which never change. If a version
makes a folder unreadable, its test says so, and the version adds a new folder.
"""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import attrs
import pytest
from beam_runner_engine.scheduler.events import Tick
from beam_runner_engine.scheduler.specs import Limits, Pauses
from beam_runner_model.buffers import BufferKind, BufferPlan
from beam_runner_runtime.forms import CONSTANTS, FORMS, SHARED
from beam_runner_storage.journal.codec import RecordFormatError, RecordRegistry
from beam_runner_storage.journal.store import JournalStore
from ledger_jobs import CHAIN, Job, rows

from beam_runner_driver.ledger import journal_codec
from beam_runner_driver.ledger.journal_codec import (
    REGISTRY,
    DecodedJournal,
    decode_entries,
    encode_entries,
)
from beam_runner_driver.ledger.ledger import JobLedger
from beam_runner_driver.ledger.recovery import recover_ledger

DATA = Path(__file__).parents[1] / "older_versions"


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[JournalStore]:
    """Opens the journals in a folder of an earlier version."""
    folder = tmp_path / "state"
    shutil.copytree(DATA / request.param, folder)
    with closing(JournalStore(folder, durable=False)) as opened:
        yield opened


@pytest.mark.parametrize("store", ["state-0.1-records"], indirect=True)
def test_jobs_of_older_journal_versions_are_continued(store: JournalStore) -> None:
    assert store.damage == ()
    bounded, keyed = (recover_ledger(store.get_journal(job_id)) for job_id in ("bounded", "keyed"))
    assert [(b.number, b.attempt, b.stage) for b in bounded.open_bundles] == [
        (1, 2, "end"),
        (3, 2, "end"),
        (4, 2, "end"),
    ]
    assert sorted(bounded.list_needed_files()) == ["f", "g"]
    assert [(b.number, b.stage, b.shard) for b in keyed.open_bundles] == [
        (1, "more", None),
        (2, "count", 3),
    ]
    assert sorted(keyed.list_needed_files()) == ["f"]
    for ledger in (bounded, keyed):
        ledger.apply_journal_entry(Tick(1_000_000))
        assert ledger.end is None


@pytest.mark.parametrize("store", ["state-0.1-records"], indirect=True)
def test_plans_in_older_journal_versions_have_no_stage_identities(store: JournalStore) -> None:
    snapshot = store.get_journal("bounded").read_committed_data().snapshot
    assert not DecodedJournal(snapshot or b"").ledger.plan.has_identities


@pytest.mark.parametrize("store", ["state-0.1-records"], indirect=True)
def test_job_of_older_journal_version_gets_limits_of_current_version(store: JournalStore) -> None:
    limits = Limits(user_attempts=None, pauses=Pauses(5, 9))
    changed = recover_ledger(store.get_journal("keyed"), lambda ledger: limits)
    assert changed.limits == limits
    other = Limits(user_attempts=7)
    assert recover_ledger(store.get_journal("keyed"), lambda ledger: other).limits == limits, (
        "written by this version"
    )


def test_journal_with_changed_record_layout_starts_with_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries of a version never follow a snapshot of another version."""
    job = Job(CHAIN)
    (first,) = job.open("read")
    job.commit(first, rows("f", 0))
    store = JournalStore(tmp_path, durable=False)
    journal = store.get_journal("job")
    journal.store_snapshot(job.begun)
    journal.append_entries([encode_entries([entry]) for entry in job.entries])

    @attrs.frozen
    class More:
        more: int = 0

    newer = RecordRegistry({**REGISTRY._classes, "More": More}, REGISTRY._shared)
    monkeypatch.setattr(journal_codec, "REGISTRY", newer)
    ledger = recover_ledger(journal)
    journal.append_entries([encode_entries([Tick(5)])])
    recovered = journal.read_committed_data()
    again = DecodedJournal(recovered.snapshot or b"")
    assert again.ledger.open == {bundle.number: bundle for bundle in ledger.open_bundles}
    assert [again.decode_entries(blob) for blob in recovered.entries] == [(Tick(5),)]
    store.close()


def test_open_bundles_of_lost_server_are_retried(tmp_path: Path) -> None:
    """Two servers after the lost server retry the bundles, with increasing attempt numbers."""
    job = Job(CHAIN)
    store = JournalStore(tmp_path, durable=False)
    journal = store.get_journal("job")
    journal.store_snapshot(job.ledger.encode_snapshot())
    for attempt in (2, 3):
        (bundle,) = recover_ledger(journal).open_bundles
        assert bundle == attrs.evolve(*job.ledger.open_bundles, attempt=attempt)
    store.close()


def test_journal_snapshot_stores_shared_objects_once() -> None:
    job = Job(CHAIN)
    (first,) = job.open("read")
    job.commit(first, *(rows("f", number) for number in range(50)))
    snapshot = job.ledger.encode_snapshot()
    assert snapshot.count(b"\xa1f") < 250
    assert (
        JobLedger.from_state(DecodedJournal(snapshot).ledger).open_bundles
        == job.ledger.open_bundles
    )


def test_malformed_journal_bytes_are_refused() -> None:
    job = Job(CHAIN)
    snapshot = job.ledger.encode_snapshot()
    entry = encode_entries(job.entries)
    assert list(decode_entries(entry)) == job.entries
    bad: Any
    for bad in (b"", b"x", pickle.dumps(1), snapshot[:-1], snapshot[:100], entry):
        with pytest.raises(RecordFormatError):
            DecodedJournal(bad)
    for bad in (b"", b"x", pickle.dumps(1), entry[:-1], snapshot):
        with pytest.raises(RecordFormatError):
            decode_entries(bad)


def test_journal_snapshot_of_unknown_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = Job(CHAIN).ledger.encode_snapshot()
    monkeypatch.setattr(journal_codec, "FORMAT", journal_codec.FORMAT + 1)
    with pytest.raises(
        RecordFormatError, match="scheduler state has the format of another version"
    ):
        DecodedJournal(snapshot)


@attrs.frozen
class _EarlierBufferPlan(BufferPlan):
    """The record in the format of older versions."""

    in_order: bool = False


def test_plan_of_older_version_with_removed_field_is_read() -> None:
    forms = {**FORMS, "plan BufferPlan": _EarlierBufferPlan}
    earlier = RecordRegistry(forms, SHARED, CONSTANTS)
    written = earlier.encode(_EarlierBufferPlan("b", BufferKind.DEALT, in_order=True))
    assert REGISTRY.decode(written, earlier.layout) == BufferPlan("b", BufferKind.DEALT)
