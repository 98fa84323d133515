"""Tests that cancel ends a job within five seconds, for any user code, and doesn't affect other jobs."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.window import FixedWindows
from beam_runner_model.jobs import JobState
from job_server import JobServerProcess
from jobs import Job, Pipelines
from offsets import Offsets
from waiting import wait_until

PROMISED_SECONDS = 5.0


class Sleep(beam.DoFn):
    def __init__(self, begun: Path) -> None:
        self._begun = begun

    def process(self, element: int) -> None:
        self._begun.touch()
        time.sleep(300)


class Spin(beam.DoFn):
    def __init__(self, begun: Path) -> None:
        self._begun = begun

    def process(self, element: int) -> None:
        self._begun.touch()
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            pass


class BlockInC(beam.DoFn):
    """DoFn that holds the GIL, so that no other thread of the process can run."""

    def __init__(self, begun: Path) -> None:
        self._begun = begun

    def process(self, element: int) -> None:
        self._begun.touch()
        ctypes.PyDLL(None).sleep(300)


class WaitFor(beam.DoFn):
    """DoFn that ends when a file appears."""

    def __init__(self, go_on: Path, begun: Path) -> None:
        self._go_on = go_on
        self._begun = begun

    def process(self, element: int) -> list[int]:
        self._begun.touch()
        while not self._go_on.exists():
            time.sleep(0.05)
        return [element]


def begin(pipelines: Pipelines, busy: beam.DoFn, begun: Path) -> Job:
    pipeline = pipelines.new()
    pipeline | beam.Create([1]) | beam.ParDo(busy) | beam.Map(lambda n: (n, n)) | beam.GroupByKey()
    job = pipelines.job(pipeline)
    wait_until(begun.exists, 60, "user code is busy")
    return job


class Count(beam.DoFn):
    """Claims number after number, and writes a byte for each."""

    def __init__(self, begun: Path) -> None:
        self._begun = begun

    @beam.DoFn.unbounded_per_element()
    def process(self, element: int, tracker: Any = beam.DoFn.RestrictionParam(Offsets())) -> None:
        number = 0
        with self._begun.open("ab", buffering=0) as file:
            while tracker.try_claim(number):
                file.write(b".")
                time.sleep(0.001)
                number += 1


@pytest.mark.parametrize(
    "busy",
    [
        *(pytest.param(one, marks=pytest.mark.slow_in("PROCESS")) for one in (Sleep, Spin)),
        BlockInC,
    ],
)
@pytest.mark.parametrize("everywhere", ["embedded", "LOOPBACK", "PROCESS"], indirect=True)
def test_batch_job_is_cancelled_within_five_seconds(
    everywhere: Pipelines,
    server: JobServerProcess,
    tmp_path: Path,
    limit: Callable[[float], float],
    busy: type[beam.DoFn],
) -> None:
    if everywhere.environment == "LOOPBACK" and busy is not Sleep:
        pytest.skip("it would go on in this very process, which LOOPBACK runs user code in")
    job = begin(everywhere, busy(tmp_path / "begun"), tmp_path / "begun")
    state, seconds = job.cancel_and_measure()
    assert state is JobState.CANCELLED
    assert seconds < limit(PROMISED_SECONDS)
    server.wait_until_idle()


@pytest.mark.parametrize("sleeps", [False, True], ids=["at work", "blocked"])
def test_stream_is_cancelled_within_five_seconds(
    embedded: Pipelines,
    server: JobServerProcess,
    tmp_path: Path,
    limit: Callable[[float], float],
    sleeps: bool,
) -> None:
    """The busy stream spends nearly all of its time in the loop inside a task."""
    begun = tmp_path / "begun"

    def see(key: str, ticks: list[object]) -> None:
        begun.touch()
        if sleeps:
            time.sleep(300)

    pipeline = embedded.new("--streaming")
    (
        pipeline
        | PeriodicImpulse(fire_interval=0.02)
        | beam.WindowInto(FixedWindows(0.1))
        | beam.WithKeys("k")
        | beam.GroupByKey()
        | beam.MapTuple(see)
    )
    job = embedded.job(pipeline)
    wait_until(begun.exists, 60, "the stream is at work")
    state, seconds = job.cancel_and_measure()
    assert state is JobState.CANCELLED
    assert seconds < limit(PROMISED_SECONDS)
    server.wait_until_idle()


def test_cancel_leaves_other_jobs_running(pipelines: Pipelines, tmp_path: Path) -> None:
    pipeline = pipelines.new()
    waited = (
        pipeline | beam.Create([7]) | beam.ParDo(WaitFor(tmp_path / "go on", tmp_path / "waiting"))
    )
    assert_that(waited, equal_to([7]))
    other = pipelines.job(pipeline)
    wait_until((tmp_path / "waiting").exists, 60, "the other job is at work")
    job = begin(pipelines, Sleep(tmp_path / "begun"), tmp_path / "begun")
    assert job.cancel_and_measure()[0] is JobState.CANCELLED
    assert other.state() is JobState.RUNNING
    (tmp_path / "go on").touch()
    assert other.wait() is JobState.DONE


def test_cancel_right_after_start_and_repeated_cancel_succeed(pipelines: Pipelines) -> None:
    pipeline = pipelines.new()
    pipeline | beam.Create([1]) | beam.Map(str)
    job = pipelines.job(pipeline)
    job.cancel()
    job.cancel()
    assert job.wait(30) in (JobState.CANCELLED, JobState.DONE)
    job.cancel()
    assert job.state() in (JobState.CANCELLED, JobState.DONE)


def test_wait_until_finish_of_a_cancelled_job_returns_cancelled(
    embedded: Pipelines, tmp_path: Path
) -> None:
    job = begin(embedded, Sleep(tmp_path / "begun"), tmp_path / "begun")
    job.result.cancel()
    with pytest.raises(RuntimeError, match="CANCELLED"):
        job.result.wait_until_finish(30_000)


def test_loopback_client_stops_user_code_after_cancel(loopback: Pipelines, tmp_path: Path) -> None:
    """The server must not kill the client's process, so the SDK in the process must stop the user code."""
    told = tmp_path / "told"
    pipeline = loopback.new("--streaming")
    pipeline | beam.Create([sys.maxsize]) | beam.ParDo(Count(told))
    job = loopback.job(pipeline)
    wait_until(told.exists, 60, "user code is busy")
    assert job.cancel_and_measure()[0] is JobState.CANCELLED

    def rests() -> bool:
        before = told.stat().st_size
        time.sleep(0.5)
        return told.stat().st_size == before

    wait_until(rests, 10, "the source claims nothing any more")
