"""Bounded splittable DoFns: split before they run, and resumed where they defer the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.core import RestrictionProvider
from jobs import Pipelines, timestamped


class Offsets(RestrictionProvider):
    """All offsets of a text."""

    def initial_restriction(self, element: str) -> OffsetRange:
        return OffsetRange(0, len(element))

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: str, restriction: OffsetRange) -> int:
        return restriction.size()


class SplitOffsets(Offsets):
    """The same in pieces of four."""

    def split(self, element: str, restriction: OffsetRange) -> Iterator[OffsetRange]:
        return restriction.split(4)


class Letters(beam.DoFn):
    def process(
        self, element: str, tracker: Any = beam.DoFn.RestrictionParam(Offsets())
    ) -> Iterator[str]:
        position = tracker.current_restriction().start
        while tracker.try_claim(position):
            yield element[position]
            position += 1


class LettersInPieces(beam.DoFn):
    """Letters with the piece they were found in."""

    def process(
        self, element: str, tracker: Any = beam.DoFn.RestrictionParam(SplitOffsets())
    ) -> Iterator[tuple[int, str]]:
        start = position = tracker.current_restriction().start
        while tracker.try_claim(position):
            yield start, element[position]
            position += 1


class TwoAtATime(beam.DoFn):
    """Defers the rest after every two letters."""

    def process(
        self, element: str, tracker: Any = beam.DoFn.RestrictionParam(Offsets())
    ) -> Iterator[str]:
        position = tracker.current_restriction().start
        for _ in range(2):
            if not tracker.try_claim(position):
                return
            yield element[position]
            position += 1
        tracker.defer_remainder()


def test_every_offset_once(everywhere: Pipelines) -> None:
    with everywhere.new() as p:
        letters = p | beam.Create(["abc", "", "defgh"]) | beam.ParDo(Letters())
        assert_that(letters, equal_to(list("abcdefgh")))


def test_restrictions_are_split_first(pipelines: Pipelines) -> None:
    text = "abcdefghij"
    with pipelines.new() as p:
        letters = p | beam.Create([text]) | beam.ParDo(LettersInPieces())
        assert_that(letters, equal_to([(i // 4 * 4, text[i]) for i in range(len(text))]))


def test_side_inputs_and_windows_of_a_splittable(pipelines: Pipelines) -> None:
    class Marked(beam.DoFn):
        def process(
            self,
            element: str,
            tracker: Any = beam.DoFn.RestrictionParam(SplitOffsets()),
            mark: str = "",
            time: Any = beam.DoFn.TimestampParam,
        ) -> Iterator[str]:
            position = tracker.current_restriction().start
            while tracker.try_claim(position):
                yield f"{element[position]}{mark}{int(time)}"
                position += 1

    with pipelines.new() as p:
        mark = p | "mark" >> beam.Create(["!"])
        letters = (
            p
            | timestamped([("abcdef", 7)], str)
            | beam.ParDo(Marked(), mark=beam.pvalue.AsSingleton(mark))
        )
        assert_that(letters, equal_to([f"{letter}!7" for letter in "abcdef"]))


def deferred(p: beam.Pipeline) -> None:
    letters = p | beam.Create(["abcdefg", "x"]) | beam.ParDo(TwoAtATime())
    assert_that(letters, equal_to(list("abcdefgx")))
    counts = letters | beam.Map(lambda c: (c, 1)) | beam.CombinePerKey(sum)
    assert_that(counts, equal_to([(c, 1) for c in "abcdefgx"]), label="counts")


def test_deferred_remainders(embedded: Pipelines) -> None:
    with embedded.new() as p:
        deferred(p)


def test_deferred_remainders_outside_are_refused_by_name(everywhere: Pipelines) -> None:
    if everywhere.environment == "embedded":
        pytest.skip("works")
    with pytest.raises(RuntimeError, match="not supported yet"), everywhere.new() as p:
        deferred(p)


class Forgetful(beam.DoFn):
    def process(
        self, element: str, tracker: Any = beam.DoFn.RestrictionParam(Offsets())
    ) -> Iterator[str]:
        tracker.try_claim(0)
        yield element[0]


def test_what_is_not_claimed_is_an_error(pipelines: Pipelines) -> None:
    with pytest.raises(RuntimeError, match="Forget"), pipelines.new() as p:
        p | beam.Create(["abc"]) | "Forget" >> beam.ParDo(Forgetful())
