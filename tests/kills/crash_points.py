"""Kills, stops or disconnects processes of a server at chosen points; and checks the results."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest
from beam_runner_model.jobs import JobState
from jobs import Job, Pipelines
from lives import Lives, lives
from victims import Victim, bounded

HOOKS = str(Path(__file__).parent / "hooks")


@attrs.frozen
class Points:
    """The points at which a process is to do something to itself."""

    folder: Path

    def set(self, point: str, word: str = "kill") -> None:
        """Orders the next process that passes the point to run the action."""
        self._path(point).write_text(word)

    def is_hit(self, point: str) -> bool:
        """Returns True if a process has run the action."""
        return Path(f"{self._path(point)}.hit").exists()

    def pid(self, point: str) -> int:
        """Returns the id of the process that ran the action."""
        return int(Path(f"{self._path(point)}.hit").read_text().split()[0])

    def clear(self, point: str) -> None:
        """Removes all orders."""
        self._path(point).unlink(missing_ok=True)
        Path(f"{self._path(point)}.hit").unlink(missing_ok=True)

    def _path(self, point: str) -> Path:
        return self.folder / point.replace(" ", "-")


@pytest.fixture
def points(tmp_path: Path) -> Points:
    """Returns the folder in which processes look for orders at crash points."""
    folder = tmp_path / "points"
    folder.mkdir()
    return Points(folder)


@contextmanager
def with_points(temporary: Path, state: Path, points: Points, *flags: str) -> Iterator[Lives]:
    """Returns the environment of a server whose processes check the points."""
    environment = {
        "PYTHONPATH": os.pathsep.join(filter(None, (HOOKS, os.environ.get("PYTHONPATH")))),
        "BEAM_KILL_POINTS": str(points.folder),
    }
    with lives(temporary, state, *flags, environment=environment) as running:
        yield running


def submit(pipelines: Pipelines, victim: Victim, count: int, stop: Path) -> Job:
    pipeline = pipelines.new() if victim is bounded else pipelines.new("--streaming")
    victim(pipeline, count, stop)
    return pipelines.job(pipeline)


def has_begun(job: Job) -> bool:
    """Returns True if user code runs: a section commits its counters only at its end."""
    return any(job.metric("counters", "first")) or job.state().is_terminal


def check(job: Job, count: int | None = None, state: JobState = JobState.DONE) -> None:
    """Checks that every number arrived once, was committed once by each stage, and was counted once in state."""
    assert job.wait(180) is state, [m.text for m in job.messages()][-3:]
    told = counters(job)
    assert told["lost"] == told["doubled"] == told["wrong"] == 0, told
    assert told["first"] == told["second"] == told["arrived"], told
    assert told["fired"] in (0, told["windows"]), told
    assert count in (None, told["arrived"]), told


def counters(job: Job) -> dict[str, int]:
    """Returns the job's counters of its numbers."""
    names = ("arrived", "lost", "doubled", "first", "second", "wrong", "windows", "fired")
    return {name: job.counter(name) for name in names}
