"""Tests of the location of job files: private to the server, and required if several machines need it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from beam_runner_data.fetching.access import explain_unusable_store
from beam_runner_storage.stores.ports import StoreError
from beam_runner_storage.stores.probe import MARK
from beam_runner_storage.stores.spec import NO_STORE, StoreSpec, parse_data_dir
from waiting import wait_until

from beam_runner_server.job_folders import JobFolders


def at(path: Path) -> StoreSpec:
    return StoreSpec(str(path))


def test_job_folder_on_one_machine_is_in_state_folder(tmp_path: Path) -> None:
    folders = JobFolders.create(None, tmp_path, at(tmp_path), durable=True)
    assert folders.folder == folders.spec.folder == tmp_path / "jobs"
    assert folders.get_job_folder("job-1").folder == tmp_path / "jobs" / "job-1"
    assert folders.get_job_folder("job-1").spec.durable
    assert not (tmp_path / "server-id").exists()


def test_job_folder_without_shared_store_is_removed_at_exit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folders = JobFolders.create(None, tmp_path, at(tmp_path)).copy_without_shared_store(
        "spark://host:7077"
    )
    (told,) = caplog.messages
    assert told.startswith("spark://host:7077 runs bundles on other machines, and no --data-dir")
    assert (folders.folder, folders.spec) == (tmp_path / "jobs", NO_STORE)
    (tmp_path / "jobs" / "job-1").mkdir(parents=True)
    folders.check_store()
    folders.remove_other_jobs(("job-1",))
    folders.remove_job_files("job-1")
    assert list((tmp_path / "jobs").iterdir()) == []


def test_job_folder_flag_can_declare_machines_without_shared_folder(tmp_path: Path) -> None:
    assert JobFolders.create(parse_data_dir("none"), tmp_path, at(tmp_path)).spec == NO_STORE


@pytest.mark.parametrize("wanted", ["s3://bucket/x", "/data"])
def test_job_folders_of_two_servers_differ_and_stay_after_restart(
    tmp_path: Path, wanted: str
) -> None:
    states = [tmp_path / "one", tmp_path / "other"]
    data = parse_data_dir(wanted)
    first, again, other = (
        JobFolders.create(data, state, at(state)) for state in (*states[:1], *states)
    )
    assert first == again
    assert first.spec != other.spec
    assert first.folder != other.folder


def test_job_folder_of_servers_with_same_stored_state_is_same(tmp_path: Path) -> None:
    state = StoreSpec(f"file://{tmp_path / 'state'}")
    first, following = (
        JobFolders.create(at(tmp_path / "data"), tmp_path / name, state)
        for name in ("one", "other")
    )
    assert first == following


def test_job_folder_in_shared_folder_is_private_to_user(tmp_path: Path) -> None:
    folders = JobFolders.create(at(tmp_path / "shared"), tmp_path, at(tmp_path))
    folders.check_store()
    assert stat.S_IMODE(folders.folder.stat().st_mode) == 0o700
    folders.folder.chmod(0o770)
    folders.check_store()
    assert stat.S_IMODE(folders.folder.stat().st_mode) == 0o770


def test_job_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="Can't create the folder .*file/"):
        JobFolders.create(at(tmp_path / "file"), tmp_path, at(tmp_path)).check_store()


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_workers_recognize_job_folder_by_marker_of_their_server(
    tmp_path: Path, scheme: str
) -> None:
    data = StoreSpec(f"{scheme}{tmp_path / 'data'}")
    folders = JobFolders.create(data, tmp_path, at(tmp_path))
    assert "is a different" in explain_unusable_store(folders.spec)
    folders.check_store()
    folders.check_store()
    folders.remove_other_jobs(())
    assert explain_unusable_store(folders.spec) == ""
    assert list(folders.spec.open_store().list_names()) == [MARK]


def test_job_folders_of_finished_jobs_are_removed_and_others_stay(tmp_path: Path) -> None:
    data = StoreSpec(f"file://{tmp_path / 'store'}")
    folders = JobFolders.create(data, tmp_path, at(tmp_path))
    folders.check_store()
    for job in ("job-1", "job-2"):
        folders.spec.with_prefix(job).open_store().create_file("data", b"")
        (folders.folder / job).mkdir(parents=True)
    data.with_prefix("server-of-somebody-else").open_store().create_file("job-1/data", b"")
    folders.remove_other_jobs({"job-2"})
    store = folders.spec.open_store()
    wait_until(lambda: sorted(store.list_names()) == ["job-2/data", MARK], 30)
    assert list(data.with_prefix("server-of-somebody-else").open_store().list_names()) == [
        "job-1/data"
    ]
    assert [folder.name for folder in folders.folder.iterdir()] == ["job-2"]


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_job_folder_removal_leaves_files_of_other_jobs(tmp_path: Path, scheme: str) -> None:
    data = StoreSpec(f"{scheme}{tmp_path / 'data'}")
    folders = JobFolders.create(data, tmp_path, at(tmp_path))
    for job_id in ("one", "two"):
        (folders.folder / job_id).mkdir(parents=True)
        folders.spec.with_prefix(job_id).open_store().create_file("file", b"x")
    folders.remove_job_files("one")
    assert [path.name for path in folders.folder.iterdir()] == ["two"]
    assert list(folders.spec.open_store().list_names()) == ["two/file"]
