"""Tests that callbacks of a bundle run once after the commit of the bundle, and never without a commit."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from beam_runner_model.jobs import JobState
from jobs import Pipelines
from waiting import wait_until


class Register(beam.DoFn):
    """DoFn that registers a callback for every element, and fails at one element on request."""

    def __init__(self, folder: Path, fails_at: int | None = None) -> None:
        self._folder = folder
        self._fails_at = fails_at

    def process(
        self, element: int, finalizer: Any = beam.DoFn.BundleFinalizerParam
    ) -> Iterator[int]:
        name = f"{element}-{uuid.uuid4().hex}"
        (self._folder / f"registered-{name}").touch()
        finalizer.register(lambda: self._called(name))
        if element == self._fails_at:
            raise ValueError("no more")
        yield element

    def _called(self, name: str) -> None:
        with (self._folder / f"called-{name}").open("a") as file:
            file.write("once ")


def names(folder: Path, kind: str) -> set[str]:
    return {file.name.partition("-")[2] for file in folder.glob(f"{kind}-*")}


def all_called_once(folder: Path) -> bool:
    texts = [file.read_text() for file in folder.glob("called-*")]
    registered = names(folder, "registered")
    return names(folder, "called") == registered and texts == ["once "] * len(registered)


@pytest.mark.parametrize("everywhere", ["embedded", "LOOPBACK", "PROCESS"], indirect=True)
def test_finalization_callback_runs_exactly_once(everywhere: Pipelines, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    with everywhere.new() as p:
        numbers = (
            p
            | beam.Create(range(20))
            | "first" >> beam.ParDo(Register(first))
            | beam.Reshuffle()
            | "second" >> beam.ParDo(Register(second))
        )
        assert_that(numbers, equal_to(list(range(20))))
    for folder in (first, second):
        assert len(names(folder, "registered")) == 20
        assert all_called_once(folder)


def test_finalization_callbacks_of_a_failed_bundle_do_not_run(
    everywhere: Pipelines, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    pipeline = everywhere.new()
    numbers = pipeline | beam.Create(range(20)) | "first" >> beam.ParDo(Register(first))
    one = numbers | beam.CombineGlobally(sum)
    one | "second" >> beam.ParDo(Register(second, fails_at=190))
    job = everywhere.job(pipeline)
    assert job.wait() is JobState.FAILED
    # The stage before was committed.
    wait_until(lambda: all_called_once(first), 60, "the callbacks of the first stage")
    assert len(names(second, "registered")) == 1
    assert names(second, "called") == set()


class Raises(beam.DoFn):
    def process(
        self, element: int, finalizer: Any = beam.DoFn.BundleFinalizerParam
    ) -> Iterator[int]:
        finalizer.register(self._fail)
        yield element

    def _fail(self) -> None:
        raise ValueError("a callback that fails")


@pytest.mark.parametrize("count", [1, 3])
def test_finalization_callback_that_fails_leaves_the_job_running(
    everywhere: Pipelines, count: int
) -> None:
    with everywhere.new() as p:
        numbers = p | beam.Create(range(count)) | beam.ParDo(Raises()) | beam.Reshuffle()
        assert_that(numbers, equal_to(list(range(count))))
