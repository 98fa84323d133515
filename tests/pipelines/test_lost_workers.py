"""Tests that a job continues with exact counters after a worker process is killed in each stage."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics
from apache_beam.testing.util import assert_that, equal_to
from beam_runner_model.jobs import JobState
from job_server import JobServerProcess
from jobs import Pipelines

ELEMENTS = 200


class DieOnce(beam.DoFn):
    """Counts elements, and kills its process in the middle the first time."""

    def __init__(self, name: str, folder: Path) -> None:
        self._died = folder / name
        self._count = Metrics.counter("lost", name)

    def process(self, element: object) -> list[object]:
        self._count.inc()
        try:
            self._died.touch(exist_ok=False)
        except FileExistsError:
            return [element]
        os.kill(os.getpid(), signal.SIGKILL)
        return []


@pytest.fixture(params=["embedded", "PROCESS"])
def killable(
    request: pytest.FixtureRequest,
    server: JobServerProcess,
    flags_of: Callable[[str], list[str]],
) -> Pipelines:
    """Returns pipelines in environments whose user-code process may be killed."""
    return Pipelines(server.address, request.param, flags_of(request.param))


def test_committed_counters_are_exact_if_workers_are_lost(
    killable: Pipelines,
    server: JobServerProcess,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    pipeline = killable.new()
    groups = (
        pipeline
        | beam.Create(range(ELEMENTS))
        | "at source" >> beam.ParDo(DieOnce("source", tmp_path))
        | beam.Reshuffle()
        | "after reshuffle" >> beam.ParDo(DieOnce("reshuffle", tmp_path))
        | beam.Map(lambda n: (n % 10, n))
        | beam.GroupByKey()
        | "after groups" >> beam.ParDo(DieOnce("groups", tmp_path))
        | beam.MapTuple(lambda key, values: (key % 2, sum(values)))
    )
    sums = (
        groups
        | beam.CombinePerKey(sum)
        | "after combine" >> beam.ParDo(DieOnce("combine", tmp_path))
    )
    expected = [(key, sum(range(key, ELEMENTS, 2))) for key in (0, 1)]
    assert_that(sums, equal_to(expected))
    job = killable.job(pipeline)
    assert job.wait(150) is JobState.DONE
    true = {"source": ELEMENTS, "reshuffle": ELEMENTS, "groups": 10, "combine": 2}
    assert {file.name for file in tmp_path.iterdir()} == set(true)
    for name, count in true.items():
        committed, attempted = job.metric("counters", name)
        assert committed == count
        assert attempted >= count
    texts = [message.text for message in job.messages()]
    # Without a folder that server and executors share, no signal is known.
    master = request.config.getoption("--spark-master-url") or ""
    words = "was lost" if master.startswith("local-cluster") else "was killed by SIGKILL"
    assert any(words in text for text in (*texts, *server.log))


class DieAtTeardown(beam.DoFn):
    def process(self, element: int) -> list[int]:
        return [element]

    def teardown(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow_in("PROCESS")
def test_process_exit_in_teardown_leaves_the_job_successful(
    killable: Pipelines, server: JobServerProcess
) -> None:
    with killable.new() as p:
        assert_that(p | beam.Create([1]) | beam.ParDo(DieAtTeardown()), equal_to([1]))
    server.wait_until_idle()
