"""What a folder does as a store, beyond what all stores do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from beam_runner_storage.stores.folder import FolderStore
from beam_runner_storage.stores.ports import StoreError
from beam_runner_storage.stores.spec import StoreSpec


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files and folders that were synced, by name, in order."""
    found: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda file: found.append(Path(os.readlink(f"/proc/self/fd/{file}")).name)
    )
    return found


def test_put_durable_store_syncs_the_file_before_its_name(
    tmp_path: Path, synced: list[str]
) -> None:
    (tmp_path / "source").write_bytes(b"x")
    FolderStore(tmp_path / "store", "store", durable=True).put("a/file", tmp_path / "source")
    assert synced[0].startswith(".file.")
    assert synced[-1] == "a"
    assert (tmp_path / "store" / "a" / "file").read_bytes() == b"x"


def test_put_store_that_is_not_durable_syncs_nothing(tmp_path: Path, synced: list[str]) -> None:
    (tmp_path / "source").write_bytes(b"x")
    StoreSpec(str(tmp_path)).open().put("file", tmp_path / "source")
    assert synced == []


def test_put_disk_refuses_leaves_nothing_and_names_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: object, target: Path) -> None:
        target.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfile", full)
    store = StoreSpec(f"file://{tmp_path}/store").open()
    with pytest.raises(StoreError, match=r"file:///.*/store failed to write file: No space left"):
        store.put("file", tmp_path / "source")
    assert list(store.names()) == []


def test_delete_file_that_can_not_be_removed_keeps_no_other_one(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="failed to delete folder"):
        StoreSpec(str(tmp_path)).open().delete(["folder", "file"])
    assert not (tmp_path / "file").exists()


def test_names_link_to_a_folder_is_one_file(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    (tmp_path / "store" / "link").symlink_to(tmp_path / "other")
    store = StoreSpec(str(tmp_path / "store")).open()
    assert list(store.names()) == ["link"]
    store.delete(["link"])
    assert (tmp_path / "other" / "file").exists()
