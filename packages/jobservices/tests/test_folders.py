"""Tests of server folders: the server never changes folders of other users."""

from __future__ import annotations

import json
import os
import stat

import pytest
from beam_runner_model.errors import RunnerError
from beam_runner_storage.durable import folders
from beam_runner_storage.durable.folders import ARTIFACTS, MARKER, STATE, lock_folder, mark_folder

from beam_runner_jobservices.server import JobServer

from .fakes import FakeExecutor


def everything(folder):
    """Returns every path in the folder with its mode and content."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mode, path.is_file() and path.read_bytes())
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize(
    "others", ["jobs/thesis/chapter1.txt", "sha256/keep.txt", "incoming/letter.txt", "lock"]
)
@pytest.mark.parametrize("which", ["artifacts_dir", "state_dir"])
def test_server_folder_with_foreign_files_is_refused_and_unchanged(tmp_path, which, others):
    folder = tmp_path / "mine"
    (folder / others).parent.mkdir(parents=True)
    (folder / others).write_text("years of work")
    (folder / "other").write_text("more")
    before = everything(folder)
    given = {"artifacts_dir": tmp_path / "artifacts", which: folder}
    with pytest.raises(RunnerError, match=r"Can't use .*mine as .*no job server created it"):
        JobServer(FakeExecutor(), port=0, **given)
    assert everything(folder) == before


def test_empty_server_folder_becomes_private_to_user(tmp_path):
    tmp_path.chmod(0o755)
    lock_folder(tmp_path, "lock", STATE).close()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700
    assert {path.name for path in tmp_path.iterdir()} == {"lock", MARKER}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in tmp_path.iterdir())
    assert json.loads((tmp_path / MARKER).read_text()) == {"purpose": "state", "format": 1}
    lock_folder(tmp_path, "lock", STATE).close()
    (tmp_path / "anything").write_text("in a marked folder")
    lock_folder(tmp_path, "lock", STATE).close()


@pytest.mark.parametrize("left", [["jobs.lock"], [f"{MARKER}.new"], ["jobs.lock", f"{MARKER}.new"]])
def test_folder_of_server_that_was_killed_during_creation_can_be_reopened(tmp_path, left):
    for name in left:
        (tmp_path / name).touch()
    lock_folder(tmp_path, "jobs.lock", STATE).close()
    assert {path.name for path in tmp_path.iterdir()} == {"jobs.lock", MARKER}


def test_separate_empty_disk_counts_as_empty_folder(tmp_path):
    (tmp_path / "lost+found").mkdir()
    lock_folder(tmp_path, "lock", STATE).close()


def test_server_folder_for_another_purpose_is_refused(tmp_path):
    lock_folder(tmp_path, "lock", STATE).close()
    with pytest.raises(
        RunnerError, match="a job server already uses the folder as its state folder"
    ):
        lock_folder(tmp_path, "lock", ARTIFACTS)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            '{"purpose": "state", "format": 2}',
            r"a newer version wrote the folder \(format 2; this version supports 1\)",
        ),
        ("", "Can't read"),
        ("[]", "Can't read"),
        ('{"purpose": "state"}', "Can't read"),
    ],
)
def test_server_folder_with_unknown_marker_content_is_refused(tmp_path, text, reason):
    (tmp_path / MARKER).write_text(text)
    with pytest.raises(RunnerError, match=reason):
        lock_folder(tmp_path, "lock", STATE)
    assert [path.name for path in tmp_path.iterdir()] == [MARKER]


@pytest.mark.parametrize(
    "name", ["sha256/keep.txt", "sha256/ab/keep.txt", "incoming/letter.txt", "more"]
)
def test_folder_that_resembles_server_folder_is_refused(tmp_path, name):
    (tmp_path / "lock").touch()
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text("years of work")
    with pytest.raises(RunnerError, match="no job server created it"):
        lock_folder(tmp_path, "lock", ARTIFACTS)


def as_another_user(monkeypatch):
    """Makes all existing files appear to belong to another user."""
    monkeypatch.setattr(folders.os, "geteuid", lambda: os.stat(__file__).st_uid + 12345)
    real = os.lstat

    def lstat(path, **options):
        return _Owned(real(path, **options))

    monkeypatch.setattr(folders.Path, "lstat", lambda path: lstat(path))


class _Owned:
    """Status of a file with user 4711 as its owner."""

    def __init__(self, found):
        self._found = found
        self.st_uid = 4711

    def __getattr__(self, name):
        return getattr(self._found, name)


def test_links_of_other_users_in_server_folder_are_not_followed(tmp_path, monkeypatch):
    shared, aim = tmp_path / "shared", tmp_path / "aim"
    shared.mkdir()
    shared.chmod(0o1777)
    aim.mkdir()
    (shared / "link").symlink_to(aim)
    (shared / "folder").mkdir()
    as_another_user(monkeypatch)
    for name in ("link", "link/below"):
        with pytest.raises(RunnerError, match="symbolic link that another user"):
            lock_folder(shared / name, "lock", STATE)
    with pytest.raises(RunnerError, match="another user has created the folder in a shared folder"):
        lock_folder(shared / "folder", "lock", STATE)
    assert list(aim.iterdir()) == []
    shared.chmod(0o755)
    lock_folder(shared / "link", "lock", STATE).close()


def test_server_folder_lock_that_is_symbolic_link_is_not_followed(tmp_path):
    (tmp_path / "aim").write_text("years of work")
    folder = tmp_path / "state"
    folder.mkdir()
    mark_folder(folder, STATE)
    (folder / "lock").symlink_to(tmp_path / "aim")
    with pytest.raises(RunnerError, match="Can't use"):
        lock_folder(folder, "lock", STATE)


def test_server_files_are_private_to_user(tmp_path):
    given = {"artifacts_dir": tmp_path / "artifacts", "state_dir": tmp_path / "state", "port": 0}
    with JobServer(FakeExecutor(), **given) as server:
        server._store.add_file("job", b"content")
        for folder in given["artifacts_dir"], given["state_dir"]:
            found = [folder, *folder.rglob("*")]
            assert not [path for path in found if path.stat().st_mode & 0o077]
