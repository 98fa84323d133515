"""Unbounded sources that checkpoint, tell watermarks, and end or are stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

import apache_beam as beam
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import trigger
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.window import FixedWindows, GlobalWindows
from apache_beam.utils.timestamp import Duration, Timestamp
from beam_runner_model.jobs import JobState
from failing_streams import Numbers
from job_server import JobServerProcess
from jobs import Pipelines
from waiting import wait_until


def windowed_sums(numbers: beam.PCollection, size: int = 10) -> beam.PCollection:
    return (
        numbers
        | beam.WindowInto(FixedWindows(size))
        | beam.WithKeys("k")
        | beam.GroupByKey()
        | beam.MapTuple(lambda _, values, w=beam.DoFn.WindowParam: (int(w.end), sum(values)))
    )


def test_numbers_in_windows(pipelines: Pipelines) -> None:
    with pipelines.new("--streaming") as p:
        numbers = p | beam.Create([35]) | beam.ParDo(Numbers(at_a_time=4))
        expected = [(end, sum(range(end - 10, min(end, 35)))) for end in (10, 20, 30, 40)]
        assert_that(windowed_sums(numbers), equal_to(expected))


def test_windows_are_closed_while_the_source_goes_on(pipelines: Pipelines, tmp_path: Path) -> None:
    """The source waits for what comes out of the first window: it would never come in a batch."""
    seen = tmp_path / "seen"

    def note(end: int, total: int) -> tuple[int, int]:
        if end == 10:
            seen.touch()
        return end, total

    with pipelines.new("--streaming") as p:
        numbers = p | beam.Create([25]) | beam.ParDo(Numbers(15, seen, at_a_time=5))
        sums = windowed_sums(numbers) | beam.MapTuple(note)
        assert_that(sums, equal_to([(10, 45), (20, 145), (30, 110)]))


def test_elements_pass_a_reshuffle_while_the_source_goes_on(
    pipelines: Pipelines, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"

    def note(number: int) -> int:
        if number == 2:
            seen.touch()
        return number

    with pipelines.new("--streaming") as p:
        numbers = p | beam.Create([9]) | beam.ParDo(Numbers(6, seen, at_a_time=3))
        noted = numbers | beam.Reshuffle() | beam.Map(note)
        assert_that(noted, equal_to(list(range(9))))


def test_panes_after_processing_time_come_by_themselves(
    pipelines: Pipelines, tmp_path: Path
) -> None:
    """In real time: no watermark moves, and the clock alone lets the pane out."""
    seen = tmp_path / "seen"

    def note(group: tuple[str, Iterable[int]]) -> list[int]:
        seen.touch()
        return sorted(group[1])

    with pipelines.new("--streaming") as p:
        values = (
            p
            | beam.Create([6])
            | beam.ParDo(Numbers(3, seen, at_a_time=3))
            | beam.WindowInto(
                GlobalWindows(),
                trigger=trigger.Repeatedly(trigger.AfterProcessingTime(1)),
                accumulation_mode=trigger.AccumulationMode.DISCARDING,
            )
            | beam.WithKeys("k")
            | beam.GroupByKey()
            | beam.FlatMap(note)
        )
        assert_that(values, equal_to(list(range(6))))


def test_a_periodic_impulse_that_ends(pipelines: Pipelines) -> None:
    start = Timestamp.of(time.time())
    with pipelines.new("--streaming") as p:
        ticks = p | PeriodicImpulse(start, start + Duration(2), 0.5, apply_windowing=True)
        counted = (
            ticks
            | beam.WithKeys("k")
            | beam.GroupByKey()
            | beam.MapTuple(lambda _, ticks: len(list(ticks)))
        )
        assert_that(counted, equal_to([1] * 4))


def test_an_endless_source_is_cancelled(
    pipelines: Pipelines,
    server: JobServerProcess,
    tmp_path: Path,
    limit: Callable[[float], float],
) -> None:
    begun = tmp_path / "begun"

    def note(end: int, total: int) -> None:
        begun.touch()

    pipeline = pipelines.new("--streaming")
    numbers = pipeline | beam.Create([10**9]) | beam.ParDo(Numbers(at_a_time=10))
    windowed_sums(numbers) | beam.MapTuple(note)
    job = pipelines.job(pipeline)
    wait_until(begun.exists, 60, "the first window is closed")
    state, seconds = job.cancel_and_measure()
    assert state is JobState.CANCELLED, [m.text for m in job.messages()][-3:]
    assert seconds < limit(10)
    server.wait_until_idle()
