"""Tests of bounded splittable DoFns that are split before they run, and resumed after they defer the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange
from apache_beam.testing.util import assert_that, equal_to
from jobs import Pipelines
from offsets import Offsets


class Places(Offsets):
    """Source of the positions of the letters in a text."""

    def initial_restriction(self, element: str) -> OffsetRange:
        return OffsetRange(0, len(element))


class PlacesInPieces(Places):
    """The same source, with restrictions of four elements."""

    def split(self, element: str, restriction: OffsetRange) -> Iterator[OffsetRange]:
        return restriction.split(4)


class LettersInPieces(beam.DoFn):
    """DoFn that emits each letter with the start of the restriction that contains the letter."""

    def process(
        self, element: str, tracker: Any = beam.DoFn.RestrictionParam(PlacesInPieces())
    ) -> Iterator[tuple[int, str]]:
        start = position = tracker.current_restriction().start
        while tracker.try_claim(position):
            yield start, element[position]
            position += 1


def test_restrictions_are_split_before_processing(pipelines: Pipelines) -> None:
    text = "abcdefghij"
    with pipelines.new() as p:
        letters = p | beam.Create([text]) | beam.ParDo(LettersInPieces())
        assert_that(letters, equal_to([(i // 4 * 4, text[i]) for i in range(len(text))]))
