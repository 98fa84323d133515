"""Tests of the files of a job on the server, in a folder and in a store: only unneeded files are deleted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from beam_runner_storage.stores.folder import FolderStore
from beam_runner_storage.stores.ports import StoreError
from beam_runner_storage.stores.spec import NO_STORE, StoreSpec
from waiting import wait_until

from beam_runner_driver.ledger.job_folder import JobFolder

NAMES = ("1-3-1-0.arrow", "1-3-2-0.arrow", "1-4-1", "left")


@pytest.fixture(params=["in place", "in a store"])
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> StoreSpec:
    path = tmp_path / "data"
    made = StoreSpec(str(path) if request.param == "in place" else f"file://{path}")
    for name in NAMES:
        made.open_store().create_file(name, b"")
    return made


def names_in(spec: StoreSpec) -> set[str]:
    return set(spec.open_store().list_names())


def test_job_folder_removes_unneeded_files_only(spec: StoreSpec, tmp_path: Path) -> None:
    files = JobFolder(spec, tmp_path / "own")
    files.delete_leftovers(NAMES[:3])
    assert names_in(spec) == set(NAMES[:3])
    files.delete_files(["1-4-1", "unknown"])
    files.delete_matching_files(re.compile(r"1-3.*"), ["1-3-2-0.arrow"])
    wait_until(lambda: names_in(spec) == {"1-3-2-0.arrow"}, 30)
    files.delete_all_files()
    assert names_in(spec) == set()
    files.delete_all_files()


def test_job_folder_removes_retained_files_after_last_release(
    spec: StoreSpec, tmp_path: Path
) -> None:
    files = JobFolder(spec, tmp_path / "own")
    for _ in range(2):
        files.postpone_deletions()
    files.delete_files(["1-4-1"])
    files.release_files()
    files.delete_files(["left"])
    assert names_in(spec) == set(NAMES)
    files.release_files()
    wait_until(lambda: names_in(spec) == set(NAMES[:2]), 30)
    files.delete_files(["1-3-1-0.arrow"])
    wait_until(lambda: names_in(spec) == {"1-3-2-0.arrow"}, 30)
    files.delete_all_files()


def test_job_folder_removes_folders_of_processes_of_earlier_server(
    spec: StoreSpec, tmp_path: Path
) -> None:
    files = JobFolder(spec, tmp_path / "own")
    (files.folder / "process-host-1" / "staged").mkdir(parents=True)
    files.delete_leftovers(NAMES)
    assert not (files.folder / "process-host-1").exists()
    assert names_in(spec) == set(NAMES)
    files.delete_all_files()


def test_job_folder_frees_disk_space_only_on_disk_of_server(
    spec: StoreSpec, tmp_path: Path
) -> None:
    files = JobFolder(spec, tmp_path / "own")
    files.free_disk_space()
    assert names_in(spec) == (set(NAMES) if spec.folder is None else set())
    files.delete_all_files()


def test_job_folder_removes_side_input_indexes_with_their_file(tmp_path: Path) -> None:
    files = JobFolder(StoreSpec(str(tmp_path)))
    for name in ("a", "b"):
        (tmp_path / "side" / name / "index").mkdir(parents=True)
    files.delete_files(["a"])
    assert [path.name for path in (tmp_path / "side").iterdir()] == ["b"]


def test_job_without_shared_folder_uses_folder_of_server(tmp_path: Path) -> None:
    files = JobFolder(NO_STORE, tmp_path / "own")
    (tmp_path / "own").mkdir()
    files.delete_files(["a"])
    files.delete_all_files()
    assert not (tmp_path / "own").exists()


def test_unneeded_files_that_store_cannot_delete_raise_no_error(
    spec: StoreSpec,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def delete(store: FolderStore, names: Iterable[str]) -> None:
        raise StoreError("503 SlowDown")

    monkeypatch.setattr(FolderStore, "delete_files", delete)
    files = JobFolder(spec, tmp_path / "own")
    files.delete_leftovers([])
    files.delete_files(["left"])
    files.delete_all_files()
    assert "Can't delete unneeded files now: 503 SlowDown" in caplog.text
