"""Tests that long bundles are split among idle lanes (worker slots), and that sources wait for slow
consumers.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows
from jobs import Pipelines
from offsets import Offsets

COUNT = 40
EACH_SECONDS = 0.2
Done = tuple[int, str, float, float]
"""Number, its thread, and its start and end times."""


def work(number: int) -> Done:
    began = time.time()
    time.sleep(EACH_SECONDS)
    return number, f"{os.getpid()}/{threading.get_ident()}", began, time.time()


class WorkThrough(beam.DoFn):
    """DoFn that processes a complete range in one call."""

    def process(
        self, element: int, tracker: Any = beam.DoFn.RestrictionParam(Offsets())
    ) -> Iterator[Done]:
        number = tracker.current_restriction().start
        while tracker.try_claim(number):
            yield work(number)
            number += 1


def elements(p: beam.Pipeline) -> beam.PCollection:
    """Makes one bundle of many elements: input that waits for a dependent side input isn't split in advance."""
    numbers = p | beam.Impulse() | beam.FlatMap(lambda _: range(COUNT))
    side = numbers | beam.combiners.Count.Globally() | beam.Map(lambda _: 0)
    return numbers | beam.Map(lambda n, zero: work(n + zero), beam.pvalue.AsSingleton(side))


def restriction(p: beam.Pipeline) -> beam.PCollection:
    """Makes one bundle of one long element."""
    return p | beam.Create([COUNT]) | beam.ParDo(WorkThrough())


def groups(p: beam.Pipeline) -> beam.PCollection:
    """Groups data so small that one bundle processes all key shards (hash partitions of keys)."""
    pairs = p | beam.Create([(number, None) for number in range(COUNT)])
    return pairs | beam.GroupByKey() | beam.MapTuple(lambda number, _: work(number))


@pytest.mark.parametrize(
    "long",
    [
        elements,
        pytest.param(restriction, marks=pytest.mark.slow_in("LOOPBACK")),
        pytest.param(groups, marks=pytest.mark.slow_in("LOOPBACK")),
    ],
    ids=lambda build: build.__name__,
)
def test_long_bundle_is_split_among_idle_workers(
    pipelines: Pipelines, tmp_path: Path, long: Any
) -> None:
    if (os.cpu_count() or 1) < 2:
        pytest.skip("there is but one core")

    def note(done: Done) -> int:
        number, thread, began, ended = done
        (tmp_path / f"{number}").write_text(f"{thread} {began} {ended}")
        return number

    with pipelines.new() as p:
        assert_that(long(p) | beam.Map(note), equal_to(list(range(COUNT))))
    notes = [file.read_text().split() for file in tmp_path.iterdir()]
    done = [(float(began), float(ended), thread) for thread, began, ended in notes]
    # Some of it was done elsewhere, while the place that had all of it was at work.
    assert any(
        one != other and began < until and since < ended
        for (began, ended, one), (since, until, other) in itertools.combinations(done, 2)
    )


MIB = 1 << 20
WHOLE = 300
AT_A_TIME = 8
AHEAD = 100


class Gush(beam.DoFn):
    """As fast as it can: a MiB for each number, a few numbers between checkpoints."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @beam.DoFn.unbounded_per_element()
    def process(
        self, element: int, tracker: Any = beam.DoFn.RestrictionParam(Offsets())
    ) -> Iterator[bytes]:
        number = tracker.current_restriction().start
        for _ in range(AT_A_TIME):
            if not tracker.try_claim(number):
                return
            yield bytes(MIB)
            number += 1
        (self._folder / str(number)).touch()
        tracker.defer_remainder()


class Sip(beam.DoFn):
    """Slow DoFn that reports the position of the source."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def process(self, data: bytes) -> Iterator[tuple[float, int]]:
        time.sleep(0.02)
        yield time.time(), max((int(file.name) for file in self._folder.iterdir()), default=0)


@pytest.mark.slow_in("LOOPBACK")
def test_source_waits_for_slow_consumers(pipelines: Pipelines, tmp_path: Path) -> None:
    def check(sips: Iterable[tuple[float, int]]) -> list[int]:
        """Returns the number of elements that were processed while the source was far ahead."""
        made = [made for _, made in sorted(sips)]
        assert len(made) == WHOLE
        return [sum(n - taken > AHEAD for taken, n in enumerate(made))]

    with pipelines.new("--streaming") as p:
        sips = (
            p
            | beam.Create([WHOLE])
            | beam.ParDo(Gush(tmp_path))
            | beam.Reshuffle()
            | beam.ParDo(Sip(tmp_path))
            | beam.WindowInto(FixedWindows(10))
            | beam.WithKeys("k")
            | beam.GroupByKey()
            | beam.Values()
            | beam.FlatMap(check)
        )
        assert_that(sips, equal_to([0]))
