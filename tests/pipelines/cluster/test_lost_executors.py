"""Tests that lost executors lose and duplicate no element of nondeterministic user code."""

from __future__ import annotations

import os
import signal
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics
from apache_beam.testing.util import assert_that, equal_to
from beam_runner_model.jobs import JobState
from job_server import JobServerProcess
from jobs import Pipelines
from waiting import wait_until

ELEMENTS = 4000
_EXECUTOR = "CoarseGrainedExecutorBackend"


def executors(server: JobServerProcess) -> set[int]:
    return {pid for pid, command in server.processes().items() if _EXECUTOR in command}


class Reduce(beam.DoFn):
    """DoFn that emits its values after it waited for a permission."""

    def __init__(self, begun: Path, go_on: Path) -> None:
        self._begun = begun
        self._go_on = go_on
        self._count = Metrics.counter("lost", "reduced")

    def process(self, element: tuple[bytes, Iterable[int]]) -> Iterator[int]:
        self._begun.touch()
        while not self._go_on.exists():
            time.sleep(0.05)
        for value in element[1]:
            self._count.inc()
            yield value


@pytest.mark.timeout(300)
def test_elements_arrive_exactly_once_if_executors_are_lost(
    embedded: Pipelines, server: JobServerProcess, tmp_path: Path
) -> None:
    begun, go_on = tmp_path / "begun", tmp_path / "go-on"
    pipeline = embedded.new()
    reduced = (
        pipeline
        | beam.Create(range(ELEMENTS))
        | beam.Reshuffle()
        # A retry returns other keys.
        | "random keys" >> beam.Map(lambda n: (uuid.uuid4().bytes, n))
        | beam.GroupByKey()
        | beam.ParDo(Reduce(begun, go_on))
    )
    assert_that(reduced | "count" >> beam.combiners.Count.Globally(), equal_to([ELEMENTS]), "one")
    assert_that(
        reduced | beam.Distinct() | "distinct" >> beam.combiners.Count.Globally(),
        equal_to([ELEMENTS]),
        "two",
    )
    assert_that(reduced | beam.CombineGlobally(sum), equal_to([sum(range(ELEMENTS))]), "three")
    job = embedded.job(pipeline)
    wait_until(begun.exists, 120, "the reduce has begun")
    before = executors(server)
    assert len(before) == 3
    for executor in before:
        os.kill(executor, signal.SIGKILL)
    go_on.touch()
    assert job.wait(240) is JobState.DONE, [m.text for m in job.messages()][-3:]
    # Something ran there and had to be run again; only so was anything at stake.
    assert any("worker process" in line and "was lost" in line for line in server.log)
    assert job.metric("counters", "reduced")[0] == ELEMENTS
    server.wait_until_idle()
