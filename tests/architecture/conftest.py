"""A copy of the repository in which a test plants a violation, and the nox sessions run on the copy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).resolve().parents[2]
COPIED_FILES = ("noxfile.py", "pyproject.toml", ".importlinter", "LICENSE")
SECONDS_PER_RUN = 120


@attrs.frozen
class Outcome:
    """Outcome of a command: ``passed``, and ``text``, its output with each run of white space as one space."""

    passed: bool
    text: str


@attrs.frozen
class Repository:
    """Copy of the repository that a test can change and check."""

    root: Path

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")

    def edit(self, path: str, old: str, new: str) -> None:
        text = (self.root / path).read_text(encoding="utf-8")
        assert old in text, f"{path} holds no {old!r}"
        self.write(path, text.replace(old, new))

    def nox(self, session: str) -> Outcome:
        """Runs a session with the tools of this environment, which saves the time to install them again."""
        command = ["-m", "nox", "--no-venv", "--no-install", "--session", session]
        return self.run(*command, NOX_SCRIPT_MODE="none", RUFF_OUTPUT_FORMAT="concise")

    def run(self, *arguments: str, **variables: str) -> Outcome:
        """Runs this Python with arguments in the copy."""
        tools = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.root,
            env={**os.environ, "PATH": tools, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS_PER_RUN,
            check=False,
        )
        return Outcome(passed=done.returncode == 0, text=" ".join(done.stdout.split()))


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("repository")
    clutter = shutil.ignore_patterns("__pycache__", "tests", ".*_cache")
    for name in COPIED_FILES:
        shutil.copy(ROOT / name, root)
    for name in ("packages", "tools"):
        shutil.copytree(ROOT / name, root / name, ignore=clutter)
    return root


@pytest.fixture
def repository(pristine: Path, tmp_path: Path) -> Iterator[Repository]:
    copy = shutil.copytree(pristine, tmp_path / "copy")
    yield Repository(copy)
    shutil.rmtree(copy)
