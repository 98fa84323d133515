"""Has processes of a server die, stop or be cut off at chosen points; and what must be true then."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
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
        """The next process that passes the point does it."""
        self._path(point).write_text(word)

    def is_hit(self, point: str) -> bool:
        """Whether one has done it."""
        return Path(f"{self._path(point)}.hit").exists()

    def pid(self, point: str) -> int:
        """Which one it was."""
        return int(Path(f"{self._path(point)}.hit").read_text().split()[0])

    def clear(self, point: str) -> None:
        """Nobody is to do it any more."""
        self._path(point).unlink(missing_ok=True)
        Path(f"{self._path(point)}.hit").unlink(missing_ok=True)

    def _path(self, point: str) -> Path:
        return self.folder / point.replace(" ", "-")


@contextmanager
def with_points(temporary: Path, state: Path, points: Points, *flags: str) -> Iterator[Lives]:
    """A server whose processes look out for the points."""
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
    """Whether user code is at work: a section commits what it counts at its end."""
    return any(job.metric("counters", "first")) or job.state().is_terminal


def check(job: Job, count: int | None = None, state: JobState = JobState.DONE) -> None:
    """Every number has arrived once, was committed once by each stage, and counted once in state."""
    assert job.wait(180) is state, [m.text for m in job.messages()][-3:]
    told = counters(job)
    assert told["lost"] == told["doubled"] == told["wrong"] == 0, told
    assert told["first"] == told["second"] == told["arrived"], told
    assert told["fired"] in (0, told["windows"]), told
    assert count in (None, told["arrived"]), told


def counters(job: Job) -> dict[str, int]:
    """What the job tells of its numbers."""
    names = ("arrived", "lost", "doubled", "first", "second", "wrong", "windows", "fired")
    return {name: job.counter(name) for name in names}
