"""Tests of a folder as a store, in addition to the tests of all stores."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beam_runner_storage.stores.folder import FolderStore
from beam_runner_storage.stores.ports import StoreError
from beam_runner_storage.stores.spec import StoreSpec


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records the names of synced files and folders, in order."""
    found: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda file: found.append(Path(os.readlink(f"/proc/self/fd/{file}")).name)
    )
    return found


def test_put_into_durable_store_syncs_file_before_rename(tmp_path: Path, synced: list[str]) -> None:
    (tmp_path / "source").write_bytes(b"x")
    FolderStore(tmp_path / "store", "store", durable=True).put_file("a/file", tmp_path / "source")
    assert synced[0].startswith(".file.")
    assert synced[-1] == "a"
    assert (tmp_path / "store" / "a" / "file").read_bytes() == b"x"


def test_put_into_volatile_store_syncs_no_file(tmp_path: Path, synced: list[str]) -> None:
    (tmp_path / "source").write_bytes(b"x")
    StoreSpec(str(tmp_path)).open_store().put_file("file", tmp_path / "source")
    assert synced == []


def test_put_refused_by_disk_leaves_no_file_and_names_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: object, target: Path) -> None:
        target.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfile", full)
    store = StoreSpec(f"file://{tmp_path}/store").open_store()
    with pytest.raises(StoreError, match=r"file:///.*/store failed to write file: No space left"):
        store.put_file("file", tmp_path / "source")
    assert list(store.list_names()) == []


def test_unfinished_files_are_removed_by_folder_and_prefix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ProcessKilled(BaseException):
        """Death of the process while it copies a file, so that the process removes nothing."""

    def kill(source: object, target: Path) -> None:
        target.touch()
        raise ProcessKilled

    (tmp_path / "source").touch()
    store = FolderStore(tmp_path / "store", "store", durable=False)
    with monkeypatch.context() as patch:
        patch.setattr("shutil.copyfile", kill)
        patch.setattr(Path, "unlink", lambda *_, **__: None)
        for name in ("a/run-1.csv", "a/other-1.csv", "b/run-1.csv", "run-1.csv"):
            with pytest.raises(ProcessKilled):
                store.put_file(name, tmp_path / "source")
    left = sorted(store.list_names())
    assert len(left) == 4
    store.delete_unfinished_files("a/run-")
    assert sorted(store.list_names()) == [name for name in left if not name.startswith("a/.run")]


def test_delete_of_undeletable_file_still_deletes_other_files(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="failed to delete folder"):
        StoreSpec(str(tmp_path)).open_store().delete_files(["folder", "file"])
    assert not (tmp_path / "file").exists()


def test_listed_names_include_link_to_folder_as_one_file(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    (tmp_path / "store" / "link").symlink_to(tmp_path / "other")
    store = StoreSpec(str(tmp_path / "store")).open_store()
    assert list(store.list_names()) == ["link"]
    store.delete_files(["link"])
    assert (tmp_path / "other" / "file").exists()
