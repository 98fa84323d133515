"""Tests of the lifecycle of a DoFn: `setup` and `teardown` are called once, with bundles in between."""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue
from beam_runner_model.jobs import JobState
from jobs import Pipelines
from waiting import wait_until


class Diary(beam.DoFn):
    """Writes a file for everything that happens to each of its instances."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name = ""

    def setup(self) -> None:
        self._name = uuid.uuid4().hex
        self._note("setup")

    def start_bundle(self) -> None:
        self._note("start")
        self._count = 0

    def process(self, element: int) -> list[int]:
        self._count += 1
        return [element]

    def finish_bundle(self) -> list[WindowedValue]:
        self._note("finish")
        return [WindowedValue(-self._count, 0, (GlobalWindow(),))]

    def teardown(self) -> None:
        self._note("teardown")

    def _note(self, event: str) -> None:
        (self._folder / f"{self._name}-{event}-{uuid.uuid4().hex}").touch()


def events(folder: Path) -> dict[str, Counter[str]]:
    """Returns the number of calls of each method for each instance."""
    found: dict[str, Counter[str]] = {}
    for file in folder.iterdir():
        name, event, _ = file.name.split("-")
        found.setdefault(name, Counter())[event] += 1
    return found


def build(pipeline: beam.Pipeline, folder: Path) -> None:
    (
        pipeline
        | beam.Create(range(20))
        | beam.Reshuffle()
        | "first" >> beam.ParDo(Diary(folder))
        | beam.Map(lambda n: (n % 3, n))
        | beam.GroupByKey()
        | beam.MapTuple(lambda key, values: sum(values))
        | "second" >> beam.ParDo(Diary(folder))
    )


@pytest.mark.parametrize("everywhere", ["embedded", "LOOPBACK", "PROCESS"], indirect=True)
def test_teardown_is_called_once_for_each_setup(everywhere: Pipelines, tmp_path: Path) -> None:
    pipeline = everywhere.new()
    build(pipeline, tmp_path)
    assert everywhere.job(pipeline).wait() is JobState.DONE
    # LOOPBACK's own threads may still be at it when the job has ended.
    wait_until(
        lambda: all(e["teardown"] for e in events(tmp_path).values()),
        60,
        lambda: str(events(tmp_path)),
    )
    found = events(tmp_path)
    assert found and "" not in found
    for happened in found.values():
        assert happened["setup"] == happened["teardown"] == 1
        assert happened["start"] == happened["finish"] >= 1


def test_teardown_is_called_after_a_failure(pipelines: Pipelines, tmp_path: Path) -> None:
    pipeline = pipelines.new()
    build(pipeline, tmp_path)
    (
        pipeline
        | "more" >> beam.Create([1])
        | "third" >> beam.ParDo(Diary(tmp_path))
        | beam.Map(lambda n: 1 / (n - 1))
    )
    assert pipelines.job(pipeline).wait() is JobState.FAILED
    wait_until(
        lambda: all(e["teardown"] for e in events(tmp_path).values()),
        60,
        lambda: str(events(tmp_path)),
    )
    assert all(e["setup"] == e["teardown"] == 1 for e in events(tmp_path).values())
