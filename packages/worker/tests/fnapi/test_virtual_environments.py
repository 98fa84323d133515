"""Tests of virtual environments with staged packages: created once, shared, retained while in use, and removed."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from wheels import make_wheel

from beam_runner_worker.fnapi import virtual_environments
from beam_runner_worker.fnapi.virtual_environments import (
    InstallationError,
    find_cache_folder,
    get_python_with_packages,
)
from beam_runner_worker.packages import StagedPackages

pytestmark = pytest.mark.timeout(180)

ASK = """
import sys
from pathlib import Path
from beam_runner_worker.fnapi.virtual_environments import get_python_with_packages
from beam_runner_worker.packages import StagedPackages
print(get_python_with_packages(StagedPackages.from_folder(Path(sys.argv[1])), Path(sys.argv[2]), print))
"""
USE = """
import attrs, apache_beam, beam_runner_worker, forced_module, needed_module
print(attrs.__file__, forced_module.WHO, needed_module.WHO)
"""


@pytest.fixture
def staged(tmp_path: Path) -> Path:
    folder = tmp_path / "staged"
    folder.mkdir()
    return folder


def test_concurrent_processes_share_one_virtual_environment(staged: Path, tmp_path: Path) -> None:
    """The environment has the staged packages first, and then the packages of this interpreter."""
    make_wheel(staged, "needed_module", "WHO = 'needed'")
    make_wheel(staged, "forced_module", "WHO = 'forced'", needs="needed_module>=1")
    make_wheel(staged, "attrs", "WHO = 'staged'", version="99.0")
    (staged / "requirements.txt").write_text("needed_module==1.0\n")
    (staged / "extra_packages.txt").write_text("forced_module-1.0-py3-none-any.whl\n")
    cache = tmp_path / "cache"
    cache.mkdir()
    asking = [
        subprocess.Popen(
            [sys.executable, "-c", ASK, str(staged), str(cache)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    said = [process.communicate(timeout=150)[0].splitlines() for process in asking]
    assert [process.returncode for process in asking] == [0, 0]
    (python,) = {lines[-1] for lines in said}
    assert sorted(len(lines) > 1 for lines in said) == [False, True], said
    used = subprocess.run([python, "-c", USE], stdout=subprocess.PIPE, text=True, check=True)
    place, *who = used.stdout.split()
    assert who == ["forced", "needed"]
    assert not place.startswith(str(cache)), "unrequested packages are not installed"


def made_without_pip(place: Path, *others: object) -> None:
    place.mkdir()
    (place / "ready").touch()


def test_unused_virtual_environments_are_removed(
    staged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(virtual_environments, "_create_environment", made_without_pip)
    cache = tmp_path / "cache"
    for name, days in (("unused", 40), ("used", 40), ("young", 20)):
        (cache / name).mkdir(parents=True)
        (cache / f"{name}.lock").touch()
        ready = cache / name / "ready"
        ready.touch()
        os.utime(ready, (time.time() - days * 24 * 3600,) * 2)
    (staged / "workflow.tar.gz").touch()
    with open(cache / "used.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        python = get_python_with_packages(StagedPackages.from_folder(staged), cache, print)
    key = python.parent.parent.name
    assert {path.name for path in cache.iterdir() if path.is_dir()} == {"used", "young", key}


def test_virtual_environment_in_use_is_retained(
    staged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(virtual_environments, "_create_environment", made_without_pip)
    (staged / "workflow.tar.gz").touch()
    python = get_python_with_packages(StagedPackages.from_folder(staged), tmp_path, print)
    name = tmp_path / f"{python.parent.parent.name}.lock"
    with open(name) as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_virtual_environment_folder_follows_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEAM_RUNNER_CACHE_DIR", str(tmp_path / "named"))
    assert find_cache_folder() == tmp_path / "named" / "beam-runner" / "python-environments"
    monkeypatch.delenv("BEAM_RUNNER_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    folder = find_cache_folder()
    assert folder == tmp_path / "xdg" / "beam-runner" / "python-environments"
    folder.chmod(0o777)
    monkeypatch.setattr(virtual_environments.tempfile, "gettempdir", lambda: str(tmp_path))
    assert find_cache_folder().parent.parent == tmp_path / f"beam-runner-{os.getuid()}"


@pytest.mark.parametrize("theirs", ["a link", "a folder that others write to", "a file"])
def test_virtual_environments_of_other_users_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theirs: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.delenv("BEAM_RUNNER_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(virtual_environments.tempfile, "gettempdir", lambda: str(tmp_path))
    shared = tmp_path / f"beam-runner-{os.getuid()}"
    match theirs:
        case "a link":
            (tmp_path / "elsewhere").mkdir(mode=0o700)
            shared.symlink_to(tmp_path / "elsewhere")
        case "a file":
            shared.touch()
        case _:
            shared.mkdir()
            shared.chmod(0o777)
    with pytest.raises(InstallationError, match="BEAM_RUNNER_CACHE_DIR"):
        find_cache_folder()
    assert not list(tmp_path.glob("*/beam-runner"))


def test_missing_folder_for_virtual_environments_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("BEAM_RUNNER_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(InstallationError, match="BEAM_RUNNER_CACHE_DIR"):
        find_cache_folder()
