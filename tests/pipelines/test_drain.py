"""Tests that a drain ends the sources of a job, and that the job processes all read elements."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.metrics import Metrics
from apache_beam.transforms import userstate
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    TimestampedValue,
    WindowFn,
)
from apache_beam.utils.timestamp import Duration, Timestamp
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from jobs import Job, Pipelines
from offsets import WATERMARK, Offsets
from waiting import wait_until

ENDLESS = 10**9


class Ranges(Offsets):
    """Restriction provider of the numbers below the element. A drain truncates endless restrictions."""

    def truncate(self, element: int, restriction: OffsetRange) -> OffsetRange | None:
        return None if restriction.stop == ENDLESS else restriction


class Numbers(beam.DoFn):
    """Source of one number per second of event time, with pauses between a few numbers."""

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
    """Counts the final output of windows."""

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
        told = {info.urn for info in client.get_metrics(job.job_id).attempted}
        assert "beam_spark:stage:output_watermark:v1" in told
        assert client.drain_job(job.job_id) is JobState.DRAINING
    assert job.wait() is JobState.DRAINED


def test_drain_emits_all_read_elements_of_an_endless_source(
    pipelines: Pipelines, tmp_path: Path
) -> None:
    """The last window is included, though the source hasn't reached its end."""
    pipeline = pipelines.new("--streaming")
    counted(pipeline, ENDLESS, begun=tmp_path / "begun")
    job = pipelines.job(pipeline)
    drained(job, tmp_path / "begun")
    assert job.counter("counted") == job.counter("given") >= 10


def test_drain_processes_bounded_sources_to_their_end(embedded: Pipelines, tmp_path: Path) -> None:
    pipeline = embedded.new("--streaming")
    counted(pipeline, 61, begun=tmp_path / "begun")
    job = embedded.job(pipeline)
    drained(job, tmp_path / "begun")
    assert job.counter("counted") == 61


class Polls(beam.DoFn):
    """Source that polls for a file every 0.5 s, and then reads all numbers."""

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


def test_drain_respects_the_polling_delay_of_a_source(embedded: Pipelines, tmp_path: Path) -> None:
    there = tmp_path / "there"
    pipeline = embedded.new("--streaming")
    pipeline | beam.Create([5]) | beam.ParDo(Polls(there))
    job = embedded.job(pipeline)
    wait_until(lambda: job.counter("asked"), 60, "the source has asked")
    with JobClient(job.address) as client:
        assert client.drain_job(job.job_id) is JobState.DRAINING
    began = time.monotonic()
    before = job.counter("asked")
    wait_until(lambda: job.counter("asked") >= before + 3, 60, "the source has asked again")
    there.touch()
    assert job.wait() is JobState.DRAINED
    assert job.counter("asked") - before <= 2 * (time.monotonic() - began) + 2
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
def test_drain_fires_processing_time_timers_without_waiting(
    embedded: Pipelines, tmp_path: Path, windows: WindowFn
) -> None:
    """A timer one hour ahead fires when its window ends. A timer that sets itself again doesn't."""
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


class Flushing(beam.DoFn):
    """DoFn that buffers numbers until an event-time timer sets a processing-time timer, which flushes them."""

    BAG = userstate.BagStateSpec("bag", VarIntCoder())
    END = userstate.TimerSpec("end", TimeDomain.WATERMARK)
    SOON = userstate.TimerSpec("soon", TimeDomain.REAL_TIME)

    def process(
        self,
        pair: tuple[str, int],
        begun: str,
        window: Any = beam.DoFn.WindowParam,
        bag: Any = beam.DoFn.StateParam(BAG),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> None:
        bag.add(pair[1])
        end.set(window.max_timestamp())
        Path(begun).touch()

    @userstate.on_timer(END)
    def on_end(self, soon: Any = beam.DoFn.TimerParam(SOON)) -> None:
        soon.set(Timestamp.now() + Duration.of(0.2))

    @userstate.on_timer(SOON)
    def on_soon(self, bag: Any = beam.DoFn.StateParam(BAG)) -> None:
        Metrics.counter("test", "flushed").inc(len(list(bag.read())))
        bag.clear()


@pytest.mark.parametrize(
    ("windows", "times"),
    [(GlobalWindows(), 1), (FixedWindows(10), 1), (SlidingWindows(10, 5), 2), (Sessions(2), 1)],
    ids=["global", "fixed", "sliding", "sessions"],
)
def test_drain_fires_processing_time_timers_that_event_time_timers_set(
    pipelines: Pipelines, tmp_path: Path, windows: WindowFn, times: int
) -> None:
    begun = tmp_path / "begun"
    pipeline = pipelines.new("--streaming")
    (
        pipeline
        | beam.Create([ENDLESS])
        | beam.ParDo(Numbers())
        | beam.WithKeys("k").with_output_types(tuple[str, int])
        | beam.WindowInto(windows)
        | beam.ParDo(Flushing(), str(begun))
    )
    job = pipelines.job(pipeline)
    drained(job, begun)
    assert job.counter("flushed") == times * job.counter("given") >= 7
