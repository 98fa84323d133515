"""Tests that a busy stream commits regularly, so that its elements pass a shuffle while the source is busy."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from beam_runner_model.jobs import JobState
from job_server import JobServerProcess
from jobs import Pipelines
from offsets import WATERMARK, Offsets
from waiting import wait_until

SECONDS = 4
TURNS = 20


class NoFractions(OffsetRestrictionTracker):
    """Restriction tracker that can checkpoint, but not split at a fraction."""

    def try_split(self, fraction: float) -> Any:
        return super().try_split(0) if fraction == 0 else None


class Whole(Offsets):
    """Ranges that are not halved."""

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return NoFractions(restriction)


def backlog(ranges: Offsets) -> beam.DoFn:
    """Emits numbers with their emission times, without a pause, up to its end."""

    class Backlog(beam.DoFn):
        @beam.DoFn.unbounded_per_element()
        def process(
            self,
            element: int,
            tracker: Any = beam.DoFn.RestrictionParam(ranges),
            estimator: Any = WATERMARK,
        ) -> Iterator[TimestampedValue]:
            number = tracker.current_restriction().start
            while tracker.try_claim(number):
                estimator.set_watermark(Timestamp(number))
                yield TimestampedValue((number, time.time()), number)
                number += 1
                until = time.process_time() + 0.0002
                while time.process_time() < until:
                    pass

    return Backlog()


class Poll(beam.DoFn):
    """DoFn that polls until it must stop, and emits a number every 20 ms with the start time of its bundle."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self, element: int, tracker: Any = beam.DoFn.RestrictionParam(Offsets())
    ) -> Iterator[tuple[int, float]]:
        began = time.time()
        number = tracker.current_restriction().start
        while tracker.try_claim(number):
            yield number, began
            number += 1
            time.sleep(0.02)


def note(folder: Path) -> Any:
    """Appends each element with its arrival time to a file."""

    class Note(beam.DoFn):
        def process(self, element: tuple[int, float]) -> None:
            number, given = element
            with (folder / f"{number % 4}").open("a") as file:
                file.write(f"{number} {given} {time.time()}\n")

    return beam.ParDo(Note())


def notes(folder: Path) -> list[tuple[int, float, float]]:
    """Returns the appended numbers with their emission and arrival times."""
    texts = [file.read_text().rpartition("\n")[0] for file in folder.iterdir()]
    lines = [line.split() for text in texts for line in text.splitlines()]
    return sorted((int(number), float(given), float(came)) for number, given, came in lines)


def without_gaps(found: list[tuple[int, float, float]]) -> list[tuple[int, float, float]]:
    """Returns all numbers before the first missing number, which may still be in process; each number
    must occur once.
    """
    numbers = [number for number, _, _ in found]
    assert len(set(numbers)) == len(numbers)
    assert not numbers or numbers[-1] < 10**9, "the range was cut"
    return [one for place, one in enumerate(found) if one[0] == place]


def turns(found: list[tuple[int, float, float]]) -> set[float]:
    """Returns the start times of the bundles."""
    return {began for _, began, _ in found}


def run(pipelines: Pipelines, source: beam.DoFn, folder: Path, until: Any, *options: str) -> None:
    """Runs a source without end until a condition holds, and cancels it."""
    pipeline = pipelines.new("--streaming", *options)
    given = pipeline | beam.Create([sys.maxsize]) | beam.ParDo(source)
    given | beam.Reshuffle() | note(folder)
    job = pipelines.job(pipeline)
    try:
        wait_until(until, 60, "the elements that the test wants have come")
    finally:
        assert job.cancel_and_measure()[0] is JobState.CANCELLED


@pytest.mark.slow_in("LOOPBACK")
@pytest.mark.parametrize("ranges", [Offsets(), Whole()], ids=["any fraction", "no fractions"])
def test_stream_with_a_backlog_commits_every_second_from_the_start(
    pipelines: Pipelines,
    server: JobServerProcess,
    tmp_path: Path,
    limit: Callable[[float], float],
    ranges: Offsets,
) -> None:
    run(
        pipelines,
        backlog(ranges),
        tmp_path,
        lambda: (n := without_gaps(notes(tmp_path))) and n[-1][1] > n[0][1] + SECONDS,
    )
    found = without_gaps(notes(tmp_path))
    waits = sorted(came - given for _, given, came in found)
    commits = sorted({came for _, _, came in found})
    pauses = [b - a for a, b in itertools.pairwise(commits)]
    print(f"{len(found)} numbers; waited up to {waits[-1]:.2f} s; pauses up to {max(pauses):.2f} s")
    assert waits[len(waits) // 2] < limit(2)
    assert sorted(pauses)[-2] < limit(2)
    server.wait_until_idle()


def test_elements_of_a_polling_source_are_passed_on_immediately(
    embedded: Pipelines, server: JobServerProcess, tmp_path: Path
) -> None:
    """Each bundle ends because its source waits, though its time limit is one hour.

    ``bench_streams`` measures the latency: p50 100 ms on an idle machine, up to 190 ms at a load of
    10.
    """
    hour = "--beam_spark_checkpoint_interval_ms=3600000"
    run(embedded, Poll(), tmp_path, lambda: len(turns(notes(tmp_path))) > TURNS, hour)
    found = without_gaps(notes(tmp_path))
    waits = sorted(came - began for _, began, came in found)
    print(f"{len(found)} numbers in {len(turns(found))} turns, which took up to {waits[-1]:.2f} s")
    assert len(turns(found)) >= TURNS
    server.wait_until_idle()
