"""Tests that finalization callbacks never run before the commit of their bundle, even if the server is killed."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from beam_runner_model.jobs import JobState
from crash_points import Points, with_points
from jobs import Pipelines, pickle_by_value
from lives import Lives
from waiting import wait_until

BEFORE, AFTER = "before callbacks are due", "after callbacks are due"

PipelinesOf = Callable[[Lives, str], Pipelines]


@pytest.fixture(autouse=True, scope="module")
def _this_too() -> None:
    pickle_by_value(__name__)


class Register(beam.DoFn):
    """DoFn that reports its callbacks by files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def process(
        self, element: int, finalizer: Any = beam.DoFn.BundleFinalizerParam
    ) -> Iterator[int]:
        name = uuid.uuid4().hex
        (self._folder / f"registered-{name}").touch()
        finalizer.register((self._folder / f"called-{name}").touch)
        yield element


def count(folder: Path, kind: str) -> int:
    return len(list(folder.glob(f"{kind}-*")))


def pipeline_of(pipelines: Pipelines, folder: Path) -> beam.Pipeline:
    pipeline = pipelines.new()
    numbers = pipeline | beam.Create([1]) | beam.Reshuffle() | beam.ParDo(Register(folder))
    numbers | "reshuffle again" >> beam.Reshuffle() | beam.Map(lambda n: n)
    return pipeline


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("environment", ["embedded", "LOOPBACK", "PROCESS"])
def test_failed_commit_fails_the_job_without_callbacks(
    temporary: Path, tmp_path: Path, points: Points, pipelines_of: PipelinesOf, environment: str
) -> None:
    """The job becomes FAILED. The bundle has run, but its callbacks were not called."""
    folder = tmp_path / "callbacks"
    folder.mkdir()
    with with_points(temporary, tmp_path / "state", points) as running:
        points.set(BEFORE, "raise")
        pipelines = pipelines_of(running, environment)
        job = pipelines.job(pipeline_of(pipelines, folder))
        assert job.wait(60) is JobState.FAILED
        assert points.is_hit(BEFORE)
        assert any("no space left" in message.text for message in job.messages())
        assert (count(folder, "registered"), count(folder, "called")) == (1, 0)
        # The same pipeline without a failure.
        job = pipelines.job(pipeline_of(pipelines, folder))
        assert job.wait(60) is JobState.DONE
        assert (count(folder, "registered"), count(folder, "called")) == (2, 1)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("point", "tries"), [(BEFORE, 2), (AFTER, 1)])
def test_callbacks_of_a_killed_server_run_only_for_uncommitted_bundles(
    temporary: Path,
    tmp_path: Path,
    points: Points,
    pipelines_of: PipelinesOf,
    point: str,
    tries: int,
) -> None:
    """If the server is killed before the commit, the bundle runs again, and its new callback is
    called. If the server is killed after the commit, the callback is lost with its process, and
    nothing replaces it.
    """
    folder = tmp_path / "callbacks"
    folder.mkdir()
    with with_points(temporary, tmp_path / "state", points) as running:
        points.set(point)
        pipelines = pipelines_of(running, "embedded")
        job = pipelines.job(pipeline_of(pipelines, folder))
        wait_until(lambda: points.is_hit(point), 60, point)
        assert running.wait_until_gone() == -9
        assert (count(folder, "registered"), count(folder, "called")) == (1, 0)
        running.go_on()
        assert job.wait(60) is JobState.DONE
        assert (count(folder, "registered"), count(folder, "called")) == (tries, tries - 1)
