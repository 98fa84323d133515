"""Elements go through ParDo, Flatten and Reshuffle and come out as the model says."""

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


class SplitByParity(beam.DoFn):
    def process(self, element: int) -> Iterator[Any]:
        yield element
        yield pvalue.TaggedOutput("odd" if element % 2 else "even", element)
        if element == 3:
            yield pvalue.TaggedOutput("three", f"found {element}")


def test_create_and_pardo_with_many_outputs(everywhere: Pipelines) -> None:
    with everywhere.new() as p:
        outputs = (
            p
            | beam.Create(range(10))
            | beam.ParDo(SplitByParity()).with_outputs("odd", "even", "three", "none", main="all")
        )
        assert_that(outputs["all"], equal_to(list(range(10))), label="all")
        assert_that(outputs.odd, equal_to([1, 3, 5, 7, 9]), label="odd")
        assert_that(outputs.even, equal_to([0, 2, 4, 6, 8]), label="even")
        assert_that(outputs.three, equal_to(["found 3"]), label="three")
        assert_that(outputs.none, equal_to([]), label="none")


def test_a_long_chain(pipelines: Pipelines) -> None:
    """Longer than Python's stack lets one bundle processor be."""
    with pipelines.new() as p:
        numbers = p | beam.Create([0, 1])
        for link in range(450):
            numbers |= f"link {link}" >> beam.Map(lambda n: n + 1)
        assert_that(numbers, equal_to([450, 451]))


def test_an_assertion_about_wrong_elements_fails(pipelines: Pipelines) -> None:
    with pytest.raises(RuntimeError, match="BeamAssertException"), pipelines.new() as p:
        assert_that(p | beam.Create([1, 2, 3]), equal_to([1, 2, 4]))


class WriteDown(beam.DoFn):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def process(self, element: int) -> None:
        (self._folder / str(element)).touch()


def test_a_sink_without_outputs_gets_every_element(pipelines: Pipelines, tmp_path: Path) -> None:
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
        # What comes out is read by nobody.
        numbers | "unread" >> beam.ParDo(WriteDown(tmp_path / "unread")) | beam.Map(str)
    for folder in tmp_path.iterdir():
        assert {int(file.name) for file in folder.iterdir()} == set(range(20)), folder


def test_an_empty_pipeline_and_an_empty_create(pipelines: Pipelines) -> None:
    with pipelines.new():
        pass
    with pipelines.new() as p:
        nothing = p | beam.Create([])
        assert_that(nothing, equal_to([]), label="nothing")
        grouped = nothing | beam.Map(lambda n: (n, n)) | beam.GroupByKey()
        assert_that(grouped, equal_to([]), label="no groups")
        count = nothing | beam.combiners.Count.Globally()
        assert_that(count, equal_to([0]), label="count of nothing")


def test_flatten(pipelines: Pipelines) -> None:
    with pipelines.new() as p:
        numbers = p | "numbers" >> beam.Create([1, 2])
        texts = p | "texts" >> beam.Create(["a", "b"])
        pairs = p | "pairs" >> beam.Create([("k", 1), ("k", 2)])
        more = p | "more" >> beam.Create([3])
        same = (numbers, more) | "same coders" >> beam.Flatten()
        assert_that(same, equal_to([1, 2, 3]), label="same")
        mixed = (numbers, texts, pairs) | "other coders" >> beam.Flatten()
        assert_that(mixed, equal_to([1, 2, "a", "b", ("k", 1), ("k", 2)]), label="mixed")
        twice = (numbers, numbers) | "twice" >> beam.Flatten()
        assert_that(twice, equal_to([1, 1, 2, 2]), label="the same twice")
        none = () | "of nothing" >> beam.Flatten(pipeline=p)
        assert_that(none, equal_to([]), label="of nothing")
        outputs = numbers | beam.ParDo(SplitByParity()).with_outputs("odd", "even", main="all")
        siblings = (outputs.odd, outputs.even, outputs["all"]) | "siblings" >> beam.Flatten()
        assert_that(siblings, equal_to([1, 1, 2, 2]), label="outputs of one ParDo")
        grouped = (
            (outputs.odd, more)
            | "before groups" >> beam.Flatten()
            | beam.Map(lambda n: ("k", n))
            | beam.GroupByKey()
            | beam.MapTuple(lambda key, values: (key, sorted(values)))
        )
        assert_that(grouped, equal_to([("k", [1, 3])]), label="grouped")


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


@pytest.mark.parametrize("transform", [beam.Reshuffle, Redistribute])
def test_reshuffled_elements_keep_their_metadata(
    pipelines: Pipelines, transform: type[beam.PTransform]
) -> None:
    with pipelines.new() as p:
        reshuffled = (
            p
            | beam.Create([("a", 3), ("b", 4), ("a", 15), ("a", 15)])
            | beam.Map(lambda pair: TimestampedValue(pair, pair[1]))
            | beam.WindowInto(beam.window.FixedWindows(10))
            | transform()
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


def test_panes_of_groups_survive_a_reshuffle(pipelines: Pipelines) -> None:
    with pipelines.new() as p:
        panes = (
            p
            | beam.Create([("a", 1), ("a", 2)])
            | beam.GroupByKey()
            | beam.Reshuffle()
            | beam.Keys()
            | beam.ParDo(Everything())
            | beam.Map(lambda row: (row[0], row[3], row[4]))
        )
        assert_that(panes, equal_to([("a", PaneInfoTiming.ON_TIME, 0)]))


def test_a_value_that_is_its_own_windowed_value(pipelines: Pipelines) -> None:
    """Types without a coder of their own are pickled, beside those that have one."""
    with pipelines.new() as p:
        odd = p | beam.Create([Timestamp(1), {"a": {1}}, None, PaneInfo(True, True, 0, 0, 0)])
        assert_that(
            odd | beam.Reshuffle() | beam.Map(repr),
            equal_to([repr(Timestamp(1)), repr({"a": {1}}), "None", repr(PaneInfo(1, 1, 0, 0, 0))]),
        )
