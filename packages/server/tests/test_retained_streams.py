"""Tests that the state of failed or cancelled streams is retained until its expiry, and then removed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from beam_runner_storage.journal.store import FILE, JournalStore

from beam_runner_server.retained_streams import StreamRetention


def store_with(folder: Path, **since: int) -> JournalStore:
    store = JournalStore(folder, durable=False)
    for job_id, time in since.items():
        journal = store.get_journal(job_id)
        journal.store_snapshot(b"state")
        journal.mark_job_finished(time)
    return store


def test_state_of_failed_stream_is_retained_until_expiry_and_then_removed(tmp_path: Path) -> None:
    now = [1_000.0]
    removed: list[str] = []
    with closing(store_with(tmp_path, early=500, late=900)) as store:
        store.get_journal("other").store_snapshot(b"of a job that runs")
        kept = StreamRetention(store, 600, lambda: now[0])
        assert kept.list_expiry_times() == {"early": 1_100, "late": 1_500}
        kept.remove_expired(removed.append, ())
        assert removed == []
        now[0] = 1_200
        kept.remove_expired(removed.append, ())
        assert removed == ["early"]
        assert store.list_job_ids() == ("late", "other")
        assert kept.list_expiry_times() == {"late": 1_500}
    with closing(JournalStore(tmp_path, durable=False)) as store:
        assert store.damage == ()
        assert StreamRetention(store, 0, lambda: now[0]).list_expiry_times() == {}, (
            "by the next server's flag"
        )
        assert StreamRetention(store, 10_000, lambda: now[0]).list_expiry_times() == {
            "late": 10_900
        }


def test_state_of_unfinished_job_is_not_removed(tmp_path: Path) -> None:
    removed: list[str] = []
    with closing(store_with(tmp_path, one=500)) as store:
        StreamRetention(store, 1, lambda: 1_000).remove_expired(removed.append, ("one",))
        assert removed == []
        assert store.list_job_ids() == ("one",)


def test_journal_of_failed_stream_stays_until_data_of_its_job_is_removed(tmp_path: Path) -> None:
    def refuses(job_id: str) -> None:
        raise OSError("the store is away")

    with closing(store_with(tmp_path, one=500)) as store:
        kept = StreamRetention(store, 1, lambda: 1_000)
        with pytest.raises(OSError, match="away"):
            kept.remove_expired(refuses, ())
        assert store.list_finished_jobs() == {"one": 500}
        kept.start(lambda job_id: None, tuple)
        kept.stop()
        kept.stop()


def test_journals_of_older_version_without_retention_are_opened(tmp_path: Path) -> None:
    store_with(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        connection.execute("DROP TABLE kept")
        connection.commit()
    with closing(JournalStore(tmp_path, durable=False)) as store:
        assert store.damage == ()
        assert store.list_finished_jobs() == {}
        store.get_journal("job").mark_job_finished(7)
        assert store.list_finished_jobs() == {"job": 7}
        store.get_journal("job").delete_journal()
        assert store.list_finished_jobs() == {}
