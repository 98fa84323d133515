"""Tests of pipelines that can end only if the runner splits running bundles.

Some elements, or positions of a restriction, are *sentinels*: the process of a sentinel waits until
a number of sentinels are in process at the same time. Sentinels run in several processes, so they
meet in a folder.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import apache_beam as beam
import attrs
import pytest
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp
from beam_runner_model.jobs import JobState
from jobs import Job, Pipelines
from offsets import WATERMARK, Offsets

MEETING_SECONDS = 60.0


@attrs.frozen
class Meeting:
    """Barrier of sentinels.

    Attributes:
        folder: folder in which each sentinel creates a file.
        size: required number of sentinels.
    """

    folder: Path
    size: int

    def join(self, name: object) -> None:
        """Returns after enough sentinels with different names have arrived; fails after a time limit."""
        (self.folder / str(name)).touch()
        deadline = time.monotonic() + MEETING_SECONDS
        while len(list(self.folder.iterdir())) < self.size:
            if time.monotonic() > deadline:
                here = sorted(file.name for file in self.folder.iterdir())
                raise TimeoutError(f"{name} waits for {self.size}, here are {here}")
            time.sleep(0.05)


def finish(pipelines: Pipelines, pipeline: beam.Pipeline) -> Job:
    job = pipelines.job(pipeline)
    assert job.wait(120) is JobState.DONE, [m.text for m in job.messages()][-3:]
    return job


class MeetAt(beam.DoFn):
    """DoFn that emits its numbers; numbers for which ``is_sentinel`` is true wait at the barrier first."""

    def __init__(self, meeting: Meeting, is_sentinel: Callable[[int], bool]) -> None:
        self._meeting = meeting
        self._is_sentinel = is_sentinel
        self._count = Metrics.counter("separation", "elements")

    def process(self, element: int) -> Iterator[int]:
        self._count.inc()
        if self._is_sentinel(element):
            self._meeting.join(element)
        else:
            time.sleep(0.05)
        yield element


@pytest.mark.parametrize(
    "streaming",
    [
        pytest.param(False, id="bounded"),
        pytest.param(True, id="streaming", marks=pytest.mark.slow_in("LOOPBACK")),
    ],
)
def test_elements_of_a_bundle_are_split_among_bundles(
    pipelines: Pipelines, tmp_path: Path, streaming: bool
) -> None:
    """The sentinels arrive in one bundle, and exceed the number of initial bundles."""
    pipeline = pipelines.new()
    pipeline.options.view_as(StandardOptions).streaming = streaming
    seen = (
        pipeline
        | beam.Create(range(1, 31))
        | beam.Reshuffle()
        | beam.ParDo(MeetAt(Meeting(tmp_path, 6), lambda n: n % 5 == 0))
    )
    assert_that(seen, equal_to(list(range(1, 31))))
    job = finish(pipelines, pipeline)
    assert job.counter("elements") == 30


class MeetOnTheWay(beam.DoFn):
    """All positions of a range with the element's length; sentinels meet."""

    def __init__(self, meeting: Meeting, sentinels: tuple[int, ...]) -> None:
        self._meeting = meeting
        self._sentinels = sentinels
        self._count = Metrics.counter("separation", "positions")

    def process(
        self, element: int, tracker: Any = beam.DoFn.RestrictionParam(Offsets())
    ) -> Iterator[tuple[int, int]]:
        position = tracker.current_restriction().start
        while tracker.try_claim(position):
            self._count.inc()
            if position in self._sentinels:
                self._meeting.join(f"{element}-{position}")
            else:
                time.sleep(0.05)
            yield element, position
            position += 1


@pytest.mark.parametrize(
    "sentinels",
    [
        (3, 4, 5),
        pytest.param((0, 9), marks=pytest.mark.slow_in("LOOPBACK")),
        pytest.param((2, 6, 9), marks=pytest.mark.slow_in("embedded")),
    ],
    ids=str,
)
def test_restriction_of_one_element_is_split_into_parallel_parts(
    pipelines: Pipelines, tmp_path: Path, sentinels: tuple[int, ...]
) -> None:
    """Positions of one element, also adjacent positions: primary and residual run at the same time."""
    pipeline = pipelines.new()
    meeting = Meeting(tmp_path, len(sentinels))
    seen = pipeline | beam.Create([10]) | beam.ParDo(MeetOnTheWay(meeting, sentinels))
    assert_that(seen, equal_to([(10, n) for n in range(10)]))
    job = finish(pipelines, pipeline)
    assert job.counter("positions") == 10


@pytest.mark.slow_in("LOOPBACK")
def test_restrictions_of_a_bundle_are_split_among_bundles(
    pipelines: Pipelines, tmp_path: Path
) -> None:
    """Elements of a splittable stage, which are fewer bundles than sentinels, then parts of them."""
    lengths = [4, 5, 6]
    pipeline = pipelines.new()
    meeting = Meeting(tmp_path, 6)
    seen = pipeline | beam.Create(lengths) | beam.ParDo(MeetOnTheWay(meeting, (1, 3)))
    assert_that(seen, equal_to([(length, n) for length in lengths for n in range(length)]))
    job = finish(pipelines, pipeline)
    assert job.counter("positions") == sum(lengths)


class OneAtATime(beam.DoFn):
    """DoFn that emits one position per call, with its time; the rest is deferred."""

    def __init__(self, delay: float) -> None:
        self._delay = delay

    @beam.DoFn.unbounded_per_element()
    def process(
        self, element: int, tracker: Any = beam.DoFn.RestrictionParam(Offsets())
    ) -> Iterator[tuple[int, float]]:
        position = tracker.current_restriction().start
        if tracker.try_claim(position):
            moment = time.time()
            # Before it puts anything out: while it waits there, the runner may take the rest, to go on with at once.
            tracker.defer_remainder(Duration(self._delay))
            yield position, moment


def too_close(moments: Iterable[tuple[int, float]], delay: float) -> list[tuple[int, float]]:
    """Returns the positions that came less than ``delay`` seconds after their predecessor, and the total count."""
    times = [moment for _, moment in sorted(moments)]
    gaps = [later - earlier for earlier, later in pairwise(times)]
    return [(position, gap) for position, gap in enumerate(gaps, 1) if gap < delay]


def test_deferred_restriction_resumes_after_its_delay(pipelines: Pipelines) -> None:
    delay = 0.3
    pipeline = pipelines.new()
    seen = pipeline | beam.Create([8]) | beam.ParDo(OneAtATime(delay))
    assert_that(seen | beam.Keys(), equal_to(list(range(8))), "all")
    apart = (
        seen
        | beam.WindowInto(FixedWindows(10**9))
        | beam.Map(lambda moment: (None, moment))
        | beam.GroupByKey()
        | beam.MapTuple(lambda _, moments: too_close(moments, delay))
    )
    assert_that(apart, equal_to([[]]), "apart")
    finish(pipelines, pipeline)


def test_deferred_restrictions_wait_in_parallel(pipelines: Pipelines) -> None:
    """Each restriction waits for its own delay; together they take no longer than one restriction."""
    pipeline = pipelines.new()
    elements = list(range(1, 6))
    seen = pipeline | beam.Create(elements) | beam.ParDo(OneAtATime(0.2))
    positions = seen | beam.Keys()
    assert_that(positions, equal_to([n for length in elements for n in range(length)]))
    finish(pipelines, pipeline)


class Endless(beam.DoFn):
    """Source of one position per second of event time, until ``stop`` exists; never defers by itself."""

    def __init__(self, stop: Path) -> None:
        self._stop = stop

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: int,
        tracker: Any = beam.DoFn.RestrictionParam(Offsets()),
        estimator: Any = WATERMARK,
    ) -> Iterator[TimestampedValue]:
        position = tracker.current_restriction().start
        while tracker.try_claim(position):
            estimator.set_watermark(Timestamp(position))
            yield TimestampedValue(position, Timestamp(position))
            position += 1
            time.sleep(0.02)
            if self._stop.exists():
                # Past its end: all of the restriction is claimed.
                tracker.try_claim(tracker.current_restriction().stop)
                return


class Touch(beam.DoFn):
    """DoFn that creates a file for each element, and emits the element."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def process(self, element: Any) -> Iterator[Any]:
        self._file.touch()
        yield element


def has_no_gap(numbers: list[int]) -> None:
    """Checks that no number is missing; the positions of the splits depend on time."""
    assert sorted(numbers) == list(range(len(numbers)))


def test_endless_restriction_is_checkpointed(pipelines: Pipelines, tmp_path: Path) -> None:
    """The restriction ends when a later stage has seen an element, which requires a checkpoint."""
    stop = tmp_path / "stop"
    pipeline = pipelines.new("--streaming")
    seen = (
        pipeline
        | beam.Create([1_000_000])
        | beam.ParDo(Endless(stop))
        | beam.Reshuffle()
        | beam.ParDo(Touch(stop))
    )
    counts = seen | beam.WindowInto(FixedWindows(10**9)) | beam.combiners.Count.PerElement()
    doubled = counts | beam.Filter(lambda count: count[1] != 1)
    assert_that(doubled, equal_to([]), "doubled")
    assert_that(seen, has_no_gap, "whole")
    finish(pipelines, pipeline)
