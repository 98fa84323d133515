"""Programs as users write and start them, and checks for leftovers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from marks import declare_beam_marks
from processes import find_marked_processes

GONE_SECONDS = 60.0
"""Limit for leftover processes, seconds. On an idle machine 10 s are enough."""
READY_SECONDS = 300.0
"""Limit for the start of a server, seconds."""
_MARK = "BEAM_TEST_PROGRAM"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option for Prism's binary, with which Beam's tests of Prism run."""
    parser.addoption("--prism", help="Prism's binary, to run Beam's tests of it with that")


def pytest_configure(config: pytest.Config) -> None:
    """Declares the pytest marks of Beam's test modules."""
    declare_beam_marks(config)


class Program:
    """Python script in a separate folder. Every process that the script starts inherits an
    environment variable, by which the tests find the process.
    """

    def __init__(self, folder: Path, temporary: Path) -> None:
        self.folder = folder
        self._temporary = temporary
        self._mark = uuid.uuid4().hex

    def write(self, name: str, text: str) -> None:
        """Writes a file of the program."""
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    @property
    def environment(self) -> dict[str, str]:
        """Returns the environment variables of the program."""
        return {"TMPDIR": str(self._temporary), _MARK: self._mark}

    def start(
        self, *arguments: str, command: Sequence[str] = (sys.executable,)
    ) -> subprocess.Popen[str]:
        """Starts ``main.py``, or the program that the arguments name."""
        return subprocess.Popen(
            [*command, *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **self.environment},
        )

    def run(
        self, *arguments: str, command: Sequence[str] = (sys.executable,), seconds: float = 450
    ) -> tuple[int, str]:
        """Runs the program; returns its exit code and its output."""
        process = self.start(*arguments, command=command)
        try:
            told, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            told, _ = process.communicate()
            pytest.fail(f"it did not end within {seconds:.0f} seconds, and has written: {told}")
        finally:
            process.kill()
        return process.returncode, told

    def wait_for_file(self, name: str, process: subprocess.Popen[str]) -> str:
        """Waits for a file that a process of the program writes when it is ready, and returns its text."""
        deadline = time.monotonic() + READY_SECONDS
        while not (self.folder / name).exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        return (self.folder / name).read_text()

    def processes(self) -> dict[int, str]:
        """Returns the command line of every running descendant process."""
        return find_marked_processes(_MARK, self._mark)

    def wait_until_gone(self) -> None:
        """Fails if a process or file of the program stays beyond the limit."""
        deadline = time.monotonic() + GONE_SECONDS
        while left := self.processes() or list(self._temporary.glob("beam-spark-*")):
            assert time.monotonic() < deadline, left
            time.sleep(0.1)


@pytest.fixture
def program(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Yields a program. At the end, its processes and our temporary files must be gone."""
    made = Program(tmp_path, tmp_path_factory.mktemp("t"))
    yield made
    made.wait_until_gone()
