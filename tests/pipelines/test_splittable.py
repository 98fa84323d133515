"""Bounded splittable DoFns: split before they run, and resumed where they defer the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import SlidingWindows
from jobs import Pipelines, timestamped
from offsets import Offsets


class Places(Offsets):
    """The places of the letters of a text."""

    def initial_restriction(self, element: str) -> OffsetRange:
        return OffsetRange(0, len(element))


class PlacesInPieces(Places):
    """The same, in pieces of four."""

    def split(self, element: str, restriction: OffsetRange) -> Iterator[OffsetRange]:
        return restriction.split(4)


class Letters(beam.DoFn):
    def process(
        self, element: str, tracker: Any = beam.DoFn.RestrictionParam(Places())
    ) -> Iterator[str]:
        position = tracker.current_restriction().start
        while tracker.try_claim(position):
            yield element[position]
            position += 1


class LettersInPieces(beam.DoFn):
    """Letters with the piece they were found in."""

    def process(
        self, element: str, tracker: Any = beam.DoFn.RestrictionParam(PlacesInPieces())
    ) -> Iterator[tuple[int, str]]:
        start = position = tracker.current_restriction().start
        while tracker.try_claim(position):
            yield start, element[position]
            position += 1


class TwoAtATime(beam.DoFn):
    """Defers the rest after every two letters."""

    def process(
        self, element: str, tracker: Any = beam.DoFn.RestrictionParam(Places())
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


class Timed(beam.DoFn):
    def process(
        self,
        element: str,
        mark: str,
        time: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
        tracker: Any = beam.DoFn.RestrictionParam(PlacesInPieces()),  # Beam wants it last
    ) -> Iterator[tuple[str, int, int]]:
        position = tracker.current_restriction().start
        while tracker.try_claim(position):
            yield element[position] + mark, int(time), int(window.end)
            position += 1


def test_side_inputs_event_times_and_windows_of_a_splittable(pipelines: Pipelines) -> None:
    with pipelines.new() as p:
        mark = p | "mark" >> beam.Create(["!"])
        letters = (
            p
            | timestamped([("abcdef", 7)], str)
            | beam.WindowInto(SlidingWindows(10, 5))
            | beam.ParDo(Timed(), beam.pvalue.AsSingleton(mark))
        )
        assert_that(letters, equal_to([(f"{c}!", 7, end) for c in "abcdef" for end in (10, 15)]))


def test_deferred_remainders(everywhere: Pipelines) -> None:
    with everywhere.new() as p:
        letters = p | beam.Create(["abcdefg", "x"]) | beam.ParDo(TwoAtATime())
        assert_that(letters, equal_to(list("abcdefgx")))
        counts = letters | beam.Map(lambda c: (c, 1)) | beam.CombinePerKey(sum)
        assert_that(counts, equal_to([(c, 1) for c in "abcdefgx"]), label="counts")


class Forgetful(beam.DoFn):
    def process(
        self, element: str, tracker: Any = beam.DoFn.RestrictionParam(Places())
    ) -> Iterator[str]:
        tracker.try_claim(0)
        yield element[0]


def test_what_is_not_claimed_is_an_error(pipelines: Pipelines) -> None:
    with pytest.raises(RuntimeError, match="Forget"), pipelines.new() as p:
        p | beam.Create(["abc"]) | "Forget" >> beam.ParDo(Forgetful())
