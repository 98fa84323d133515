"""Drain ends the sources of a job; all that they have given is processed to the end."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.metrics import Metrics
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import FixedWindows, GlobalWindows, TimestampedValue, WindowFn
from apache_beam.utils.timestamp import Duration, Timestamp
from beam_runner_jobservices import JobClient, JobState
from job_server import wait_until
from jobs import Job, Pipelines
from offsets import WATERMARK, Offsets

ENDLESS = 10**9


class Ranges(Offsets):
    """The numbers up to the element; a drain ends those that would take for ever."""

    def truncate(self, element: int, restriction: OffsetRange) -> OffsetRange | None:
        return None if restriction.stop == ENDLESS else restriction


class Numbers(beam.DoFn):
    """A number at each second of event time, a few every now and then."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: int,
        tracker: Any = beam.DoFn.RestrictionParam(Ranges()),
        estimator: Any = WATERMARK,
    ) -> Iterable[TimestampedValue]:
        number = tracker.current_restriction().start
        estimator.set_watermark(Timestamp(number))
        for _ in range(7):
            if not tracker.try_claim(number):
                return
            Metrics.counter("test", "given").inc()
            yield TimestampedValue(number, number)
            number += 1
        tracker.defer_remainder(Duration.of(0.1))


def counted(pipeline: beam.Pipeline, *elements: int, begun: Path) -> None:
    """Counts what comes out of windows in the end."""

    def count(key: str, numbers: Iterable[int]) -> None:
        Metrics.counter("test", "counted").inc(len(list(numbers)))
        begun.touch()

    (
        pipeline
        | beam.Create(elements)
        | beam.ParDo(Numbers())
        | beam.WindowInto(FixedWindows(10))
        | beam.WithKeys("k")
        | beam.GroupByKey()
        | beam.MapTuple(count)
    )


def drained(job: Job, begun: Path) -> None:
    """Drains a job once its first window is closed."""
    wait_until(begun.exists, 60, "the first window is closed")
    with JobClient(job.address) as client:
        told = {info.urn for info in client.metrics(job.job_id).attempted}
        assert "beam_spark:stage:output_watermark:v1" in told
        assert client.drain(job.job_id) is JobState.DRAINING
    assert job.wait() is JobState.DRAINED


def test_what_an_endless_source_has_given_comes_out(pipelines: Pipelines, tmp_path: Path) -> None:
    """Also of the last window, which the source has not come to the end of."""
    pipeline = pipelines.new("--streaming")
    counted(pipeline, ENDLESS, begun=tmp_path / "begun")
    job = pipelines.job(pipeline)
    drained(job, tmp_path / "begun")
    assert job.counter("counted") == job.counter("given") >= 10


def test_what_has_an_end_goes_on_to_it(embedded: Pipelines, tmp_path: Path) -> None:
    pipeline = embedded.new("--streaming")
    counted(pipeline, 61, begun=tmp_path / "begun")
    job = embedded.job(pipeline)
    drained(job, tmp_path / "begun")
    assert job.counter("counted") == 61


class Polls(beam.DoFn):
    """Asks every half second whether a file is there, and then reads all numbers."""

    def __init__(self, there: Path) -> None:
        self._there = there

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: int,
        tracker: Any = beam.DoFn.RestrictionParam(Ranges()),
        estimator: Any = WATERMARK,
    ) -> Iterable[TimestampedValue]:
        Metrics.counter("test", "asked").inc()
        if not self._there.exists():
            tracker.defer_remainder(Duration.of(0.5))
            return
        number = tracker.current_restriction().start
        while tracker.try_claim(number):
            Metrics.counter("test", "given").inc()
            yield TimestampedValue(number, number)
            number += 1


def test_what_polls_goes_on_at_its_own_pace(embedded: Pipelines, tmp_path: Path) -> None:
    there = tmp_path / "there"
    pipeline = embedded.new("--streaming")
    pipeline | beam.Create([5]) | beam.ParDo(Polls(there))
    job = embedded.job(pipeline)
    wait_until(lambda: job.counter("asked"), 60, "the source has asked")
    with JobClient(job.address) as client:
        assert client.drain(job.job_id) is JobState.DRAINING
    began = time.monotonic()
    before = job.counter("asked")
    time.sleep(2)
    there.touch()
    assert job.wait() is JobState.DRAINED
    asked = job.counter("asked") - before
    assert 2 <= asked <= 2 * (time.monotonic() - began) + 2
    assert job.counter("given") == 5


class Reminders(beam.DoFn):
    """Reminds of each key after an hour, and then every hour."""

    REMINDER = userstate.TimerSpec("reminder", TimeDomain.REAL_TIME)

    def process(
        self,
        pair: tuple[str, int],
        begun: str,
        reminder: Any = beam.DoFn.TimerParam(REMINDER),
    ) -> None:
        reminder.set(Timestamp.now() + 3600)
        Path(begun).touch()

    @userstate.on_timer(REMINDER)
    def remind(self, reminder: Any = beam.DoFn.TimerParam(REMINDER)) -> None:
        Metrics.counter("test", "reminded").inc()
        reminder.set(Timestamp.now() + 3600)


@pytest.mark.parametrize("windows", [GlobalWindows(), FixedWindows(10)], ids=["global", "fixed"])
def test_a_drain_waits_for_no_clock(embedded: Pipelines, tmp_path: Path, windows: WindowFn) -> None:
    """A timer that is an hour ahead rings when its window ends, and what it sets never does."""
    begun = tmp_path / "begun"
    pipeline = embedded.new("--streaming")
    (
        pipeline
        | beam.Create([ENDLESS])
        | beam.ParDo(Numbers())
        | beam.Filter(lambda number: number < 10)
        | beam.WindowInto(windows)
        | beam.WithKeys("k").with_output_types(tuple[str, int])
        | beam.ParDo(Reminders(), str(begun))
    )
    job = embedded.job(pipeline)
    drained(job, begun)
    assert job.counter("reminded") == 1
