"""Tests of stores that can hold state: the initial probe, and successive servers."""

from __future__ import annotations

from pathlib import Path

import pytest
from beam_runner_model.errors import Unavailable

from beam_runner_storage.journal.errors import JournalFenced
from beam_runner_storage.journal.journal import RecoveredJournal
from beam_runner_storage.journal.store import JournalStore
from beam_runner_storage.stores.ports import FileStore, MissingFileError, StoreError
from beam_runner_storage.stores.probe import probe_exclusive_creation
from beam_runner_storage.stores.remote_state import RemoteState
from beam_runner_storage.stores.spec import StoreSpec


def test_exclusive_create_in_store_succeeds_for_first_writer_only(spec: StoreSpec) -> None:
    store = spec.open_store()
    assert store.create_file("a/1", b"first")
    assert not store.create_file("a/1", b"second")
    assert store.read_file("a/1") == b"first"
    with pytest.raises(MissingFileError, match="has no .*a/2"):
        store.read_file("a/2")


def test_store_with_exclusive_create_passes_probe_without_leftover_file(spec: StoreSpec) -> None:
    probe_exclusive_creation(spec)
    assert list(spec.open_store().list_names()) == []


def test_store_that_ignores_exclusive_create_is_refused(
    spec: StoreSpec, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def replace(store: FileStore, name: str, contents: bytes) -> bool:
        source = tmp_path / f"{id(contents)}"
        source.write_bytes(contents)
        store.put_file(name, source)
        return True

    monkeypatch.setattr(type(spec.open_store()), "create_file", replace)
    with pytest.raises(
        StoreError, match="lets several servers create the same file: .* or to a folder"
    ):
        RemoteState(spec)
    assert list(spec.open_store().list_names()) == []


def test_next_server_reads_state_in_store_and_fences_previous_server(
    spec: StoreSpec, tmp_path: Path
) -> None:
    staged = tmp_path / "staged"
    staged.write_bytes(b"a package")
    last = RemoteState(spec)
    journals = JournalStore(tmp_path / "last", True, last.journal)
    journals.get_journal("job-1").append_entries([b"one"])
    name = last.artifacts.put("hash", staged)
    try:
        following = RemoteState(spec)
        again = JournalStore(tmp_path / "next", True, following.journal)
        try:
            assert again.get_journal("job-1").read_committed_data() == RecoveredJournal(
                None, (b"one",)
            )
            following.artifacts.fetch(name, tmp_path / "brought")
            assert (tmp_path / "brought").read_bytes() == b"a package"
            assert following.artifacts.names() == {name: "hash"}
            with pytest.raises(JournalFenced, match="another server has taken over the state in"):
                journals.get_journal("job-1").append_entries([b"two"])
            assert "another server has taken over" in (last.failure or "")
            assert not last.accepts_commits and following.accepts_commits
            with pytest.raises(Unavailable, match="another server has taken over"):
                last.artifacts.put("hash", staged)
            last.artifacts.delete([name])
            assert list(following.artifacts.names()) == [name]
            following.artifacts.delete([name])
            assert not following.artifacts.names()
            assert following.failure is None
        finally:
            again.close()
            following.close()
    finally:
        journals.close()
        last.close()
