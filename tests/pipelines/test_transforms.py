"""Tests that ParDo, Flatten and Reshuffle return the elements that Beam's model defines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam import pvalue
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming
from jobs import Pipelines


@pytest.mark.slow_in("LOOPBACK")
def test_long_chain_of_transforms_gives_exact_results(pipelines: Pipelines) -> None:
    """The chain is longer than Python's stack allows for one bundle processor."""
    with pipelines.new() as p:
        numbers = p | beam.Create([0, 1])
        for link in range(450):
            numbers |= f"link {link}" >> beam.Map(lambda n: n + 1)
        assert_that(numbers, equal_to([450, 451]))


class WriteDown(beam.DoFn):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def process(self, element: int) -> None:
        (self._folder / str(element)).touch()


def test_sink_without_outputs_receives_every_element(pipelines: Pipelines, tmp_path: Path) -> None:
    for folder in ("behind-source", "behind-groups", "unread"):
        (tmp_path / folder).mkdir()
    with pipelines.new() as p:
        numbers = p | beam.Create(range(20))
        numbers | "behind source" >> beam.ParDo(WriteDown(tmp_path / "behind-source"))
        (
            numbers
            | beam.Map(lambda n: (n, n))
            | beam.GroupByKey()
            | beam.Keys()
            | "behind groups" >> beam.ParDo(WriteDown(tmp_path / "behind-groups"))
        )
        # No transform reads the output.
        numbers | "unread" >> beam.ParDo(WriteDown(tmp_path / "unread")) | beam.Map(str)
    for folder in tmp_path.iterdir():
        assert {int(file.name) for file in folder.iterdir()} == set(range(20)), folder


def test_empty_pipeline_and_empty_create_succeed(pipelines: Pipelines) -> None:
    with pipelines.new():
        pass
    with pipelines.new() as p:
        nothing = p | beam.Create([])
        assert_that(nothing, equal_to([]), label="nothing")
        grouped = nothing | beam.Map(lambda n: (n, n)) | beam.GroupByKey()
        assert_that(grouped, equal_to([]), label="no groups")
        count = nothing | beam.combiners.Count.Globally()
        assert_that(count, equal_to([0]), label="count of nothing")
        flat = () | "of no collections" >> beam.Flatten(pipeline=p)
        assert_that(flat, equal_to([]), label="of no collections")


def test_pcollections_can_be_side_inputs_of_each_other(pipelines: Pipelines) -> None:
    """Beam's FnApiRunner can't run this pipeline beside other steps."""
    with pipelines.new() as p:
        left = p | "left" >> beam.Create([1, 2])
        right = p | "right" >> beam.Create([3, 4])

        def with_sum(number: int, others: list[int]) -> tuple[int, int]:
            return number, sum(others)

        of_left = left | "of left" >> beam.Map(with_sum, pvalue.AsList(right))
        of_right = right | "of right" >> beam.Map(with_sum, pvalue.AsList(left))
        assert_that(of_left, equal_to([(1, 7), (2, 7)]), label="left")
        assert_that(of_right, equal_to([(3, 3), (4, 3)]), label="right")


class Everything(beam.DoFn):
    def process(
        self,
        element: Any,
        timestamp: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> Iterator[Any]:
        yield element, int(timestamp), int(window.end), pane.timing, pane.index


class Redistribute(beam.Reshuffle):
    """Java's and Go's newer name for a reshuffle, which Python lacks."""

    def to_runner_api_parameter(self, context: Any) -> tuple[str, None]:
        return "beam:transform:redistribute_arbitrarily:v1", None


def test_redistributed_elements_keep_their_metadata(pipelines: Pipelines) -> None:
    with pipelines.new() as p:
        reshuffled = (
            p
            | beam.Create([("a", 3), ("b", 4), ("a", 15), ("a", 15)])
            | beam.Map(lambda pair: TimestampedValue(pair, pair[1]))
            | beam.WindowInto(beam.window.FixedWindows(10))
            | Redistribute()
            | beam.ParDo(Everything())
        )
        unknown = PaneInfoTiming.UNKNOWN
        assert_that(
            reshuffled,
            equal_to(
                [
                    (("a", 3), 3, 10, unknown, 0),
                    (("b", 4), 4, 10, unknown, 0),
                    (("a", 15), 15, 20, unknown, 0),
                    (("a", 15), 15, 20, unknown, 0),
                ]
            ),
        )


def test_element_of_a_windowed_value_subclass_reaches_the_next_step(pipelines: Pipelines) -> None:
    """Types without a coder are pickled, beside types with a coder."""
    with pipelines.new() as p:
        odd = p | beam.Create([Timestamp(1), {"a": {1}}, None, PaneInfo(True, True, 0, 0, 0)])
        assert_that(
            odd | beam.Reshuffle() | beam.Map(repr),
            equal_to([repr(Timestamp(1)), repr({"a": {1}}), "None", repr(PaneInfo(1, 1, 0, 0, 0))]),
        )
