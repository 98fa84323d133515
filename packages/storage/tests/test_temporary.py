from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from beam_runner_storage.temporary import (
    SharedTemporaryFolder,
    TemporaryFolder,
    remove_stale_folders,
)

HOLDS = """
import sys
from beam_runner_storage.temporary import TemporaryFolder
folder = TemporaryFolder()
folder.path.joinpath("data").touch()
print(folder.path, flush=True)
sys.stdin.read()
"""
JOINS = """
import sys
from beam_runner_storage.temporary import SharedTemporaryFolder
folder = SharedTemporaryFolder("kind-", "0123456789abcdef")
folder.path.joinpath(sys.argv[1]).touch()
print(folder.path, flush=True)
sys.stdin.read()
folder.release_folder()
"""
TWENTY = """
import sys
from beam_runner_storage.temporary import TemporaryFolder
for _ in range(20):
    folder = TemporaryFolder()
    folder.path.joinpath("data").touch()
    assert folder.path.joinpath("data").exists()
    if len(sys.argv) > 1:
        folder.remove_folder()
"""


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replaces the system's folder for temporary files."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def left(shared: Path) -> tuple[Path, Path]:
    """Returns a non-empty folder of a killed server, and its lock."""
    server = start(HOLDS)
    assert server.stdout is not None
    folder = Path(server.stdout.readline().strip())
    server.send_signal(signal.SIGKILL)
    server.wait()
    return folder, shared / f"{folder.name}.lock"


def test_temporary_folder_is_private_and_removed(shared: Path) -> None:
    folder = TemporaryFolder()
    assert folder.path.parent == shared
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o077 for path in shared.iterdir()} == {0}
    folder.path.joinpath("below").mkdir()
    folder.remove_folder()
    assert list(shared.iterdir()) == []
    folder.remove_folder()


def test_temporary_folder_of_killed_server_is_removed_and_locked_folder_stays(shared: Path) -> None:
    folder, lock = left(shared)
    assert folder.joinpath("data").exists() and lock.exists()
    living = TemporaryFolder("jobs-"), TemporaryFolder()
    assert not folder.exists() and not lock.exists()
    for one in living:
        assert one.path.is_dir()
        one.remove_folder()
    assert list(shared.iterdir()) == []


def test_abandoned_temporary_folder_is_removed_by_cleanup(shared: Path) -> None:
    folder, lock = left(shared)
    remove_stale_folders()
    assert not folder.exists() and not lock.exists()


def test_unlocked_temporary_folder_without_marker_is_not_removed(shared: Path) -> None:
    for name in (
        "beam-spark-0123abcd",
        "beam-spark-notes",
        "beam-spark-",
        "beam-spark-0123abcd.lock.old",
    ):
        shared.joinpath(name).mkdir()
        shared.joinpath(name, "keep").touch()
    shared.joinpath("beam-spark-notes.lock").touch()
    before = sorted(shared.rglob("*"))
    TemporaryFolder().remove_folder()
    assert sorted(shared.rglob("*")) == before


def test_temporary_folder_cleanup_does_not_follow_links(shared: Path) -> None:
    others = shared / "others"
    others.mkdir()
    others.joinpath("keep").touch()
    folder, lock = left(shared)
    folder.joinpath("link").symlink_to(others)
    shared.joinpath("beam-spark-0123abcd").symlink_to(others)
    shared.joinpath("beam-spark-0123abcd.lock").touch()
    shared.joinpath("beam-spark-4567cdef").mkdir()
    shared.joinpath("beam-spark-4567cdef.lock").symlink_to(others / "keep")
    os.mkfifo(shared / "beam-spark-89abcdef.lock")
    TemporaryFolder().remove_folder()
    assert not folder.exists() and not lock.exists()
    assert others.joinpath("keep").exists()
    assert shared.joinpath("beam-spark-0123abcd").is_symlink()
    assert shared.joinpath("beam-spark-4567cdef").is_dir()
    assert shared.joinpath("beam-spark-89abcdef.lock").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_temporary_folder_cleanup_does_not_remove_files_of_another_user(shared: Path) -> None:
    folder, lock = left(shared)
    others, others_lock = left_of_another = (
        shared / "beam-spark-0123abcd",
        shared / "beam-spark-0123abcd.lock",
    )
    others.mkdir()
    others_lock.touch()
    for path in left_of_another:
        os.chown(path, 12345, 12345)
    os.chown(folder, 12345, 12345)
    TemporaryFolder().remove_folder()
    assert others.exists() and others_lock.exists()
    assert folder.exists() and lock.exists()


def test_concurrently_started_servers_remove_no_temporary_folder_of_each_other(
    shared: Path,
) -> None:
    for _ in range(2):
        left(shared)
    servers = [start(TWENTY, *arguments) for arguments in ((), ("remove",), ())]
    assert [server.wait(60) for server in servers] == [0, 0, 0]
    TemporaryFolder().remove_folder()
    assert list(shared.iterdir()) == []


def test_temporary_folder_is_created_if_locks_are_unsupported(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(file: int, operation: int) -> None:
        raise OSError("not supported")

    monkeypatch.setattr("fcntl.flock", flock)
    folder, other = TemporaryFolder(), TemporaryFolder()
    assert folder.path.is_dir()
    other.remove_folder()
    folder.remove_folder()
    assert list(shared.iterdir()) == []


def test_last_process_removes_shared_temporary_folder(shared: Path) -> None:
    first, second = start(JOINS, "first"), start(JOINS, "second")
    folders = set()
    for process in (first, second):
        assert process.stdout is not None
        folders.add(Path(process.stdout.readline().strip()))
    (folder,) = folders
    assert sorted(path.name for path in folder.iterdir()) == ["first", "second"]
    first.communicate("")
    assert sorted(path.name for path in folder.iterdir()) == ["first", "second"]
    second.communicate("")
    assert list(shared.iterdir()) == []


def test_shared_temporary_folder_is_removed_after_all_processes_are_killed(shared: Path) -> None:
    processes = [start(JOINS, name) for name in ("first", "second")]
    for process in processes:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
    processes[0].kill()
    processes[0].wait()
    TemporaryFolder().remove_folder()
    assert sorted(path.name for path in folder.iterdir()) == ["first", "second"]
    processes[1].kill()
    processes[1].wait()
    TemporaryFolder().remove_folder()
    assert list(shared.iterdir()) == []


def test_shared_temporary_folder_is_not_created_through_link(
    shared: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (shared / "beam-spark-kind-01234567").symlink_to(elsewhere)
    with pytest.raises(OSError):
        SharedTemporaryFolder("kind-", "01234567")
    assert list(elsewhere.iterdir()) == []
