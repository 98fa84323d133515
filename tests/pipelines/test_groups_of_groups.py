"""Groups as values: grouped again and again, in side inputs and in state, small and large."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam import pvalue
from apache_beam.coders import IterableCoder, PickleCoder, VarIntCoder
from apache_beam.coders.coders import Coder
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.userstate import BagStateSpec
from jobs import Pipelines

FEW = range(3)
MANY = range(50_000)
"""180 KB, which an SDK reads as state."""


def plain(value: Any) -> Any:
    """Groups within groups as lists, numbers in order."""
    if isinstance(value, int):
        return value
    items = [plain(item) for item in value]
    return sorted(items)


def pairs(p: beam.Pipeline, numbers: Iterable[int], label: str = "Numbers") -> beam.PCollection:
    return (
        p
        | f"{label}/Create" >> beam.Create([None])
        | f"{label}/Many" >> beam.FlatMap(lambda _, all_of_them: all_of_them, numbers)
        | f"{label}/Key" >> beam.Map(lambda n: ("k", n)).with_output_types(tuple[str, int])
    )


def group(groups: beam.PCollection, *labels: str) -> beam.PCollection:
    for label in labels:
        groups |= label >> beam.GroupByKey()
    return groups | f"{labels[-1]}/Plain" >> beam.MapTuple(lambda k, v: (k, plain(v)))


@pytest.mark.parametrize("numbers", [FEW, MANY], ids=["few", "many"])
def test_groups_are_grouped_again_and_again(everywhere: Pipelines, numbers: range) -> None:
    with everywhere.new() as p:
        grouped = group(pairs(p, numbers), "one", "two", "three")
        assert_that(grouped, equal_to([("k", [[list(numbers)]])]))


def test_flattened_groups_are_grouped(pipelines: Pipelines) -> None:
    with pipelines.new() as p:
        few = pairs(p, FEW, "few") | "group few" >> beam.GroupByKey()
        many = pairs(p, MANY, "many") | "group many" >> beam.GroupByKey()
        both = (few, many) | beam.Flatten()
        expected = [("k", [list(FEW), list(MANY)])]
        assert_that(group(both, "again"), equal_to(expected), label="plain")
        dealt = both | beam.Reshuffle()
        assert_that(group(dealt, "dealt"), equal_to(expected), label="reshuffled")


@pytest.mark.parametrize("value_type", [Iterable[int], Iterable[Any], list[int]], ids=str)
def test_iterables_of_every_type_are_grouped(pipelines: Pipelines, value_type: Any) -> None:
    with pipelines.new() as p:
        lists = (
            p
            | beam.Create([("k", [1, 2]), ("k", []), ("k", [3])])
            | beam.Map(lambda pair: pair).with_output_types(tuple[str, value_type])
        )
        assert_that(group(lists, "group"), equal_to([("k", [[], [1, 2], [3]])]))


class Collect(beam.CombineFn):
    """Accumulators that are iterables of the model."""

    def create_accumulator(self) -> list[int]:
        return []

    def add_input(self, accumulator: list[int], element: int) -> list[int]:
        return [*accumulator, element]

    def merge_accumulators(self, accumulators: Iterable[list[int]]) -> list[int]:
        return [each for accumulator in accumulators for each in accumulator]

    def extract_output(self, accumulator: list[int]) -> list[int]:
        return sorted(accumulator)

    def get_accumulator_coder(self) -> Coder:
        return IterableCoder(VarIntCoder())


def test_accumulators_that_are_iterables(pipelines: Pipelines) -> None:
    with pipelines.new() as p:
        collected = pairs(p, FEW) | beam.Reshuffle() | beam.CombinePerKey(Collect())
        assert_that(collected, equal_to([("k", list(FEW))]))


@pytest.mark.parametrize("numbers", [FEW, MANY], ids=["few", "many"])
def test_groups_are_side_inputs(pipelines: Pipelines, numbers: range) -> None:
    with pipelines.new() as p:
        once = pairs(p, numbers) | "one" >> beam.GroupByKey()
        twice = once | "two" >> beam.GroupByKey()

        def look(_: None, a: Any, b: Any, c: Any, d: Any) -> Iterator[Any]:
            yield [(key, plain(values)) for key, values in a]
            yield [(key, plain(values)) for key, values in b]
            yield [plain(values) for values in c["k"]]
            yield plain(d["k"])

        seen = (
            p
            | "main" >> beam.Create([None])
            | beam.FlatMap(
                look,
                pvalue.AsList(once),
                pvalue.AsIter(twice),
                pvalue.AsMultiMap(twice),
                pvalue.AsDict(once),
            )
        )
        numbers_in_order = list(numbers)
        assert_that(
            seen,
            equal_to(
                [
                    [("k", numbers_in_order)],
                    [("k", [numbers_in_order])],
                    [[numbers_in_order]],
                    numbers_in_order,
                ]
            ),
        )


class Keep(beam.DoFn):
    """Keeps every group in state, in both ways, and puts out all that it has kept."""

    ITERABLES = BagStateSpec("iterables", IterableCoder(VarIntCoder()))
    PICKLED = BagStateSpec("pickled", PickleCoder())

    def process(
        self,
        element: tuple[str, Iterable[int]],
        iterables: Any = beam.DoFn.StateParam(ITERABLES),
        pickled: Any = beam.DoFn.StateParam(PICKLED),
    ) -> Iterator[Any]:
        _, values = element
        iterables.add(values)
        pickled.add(values)
        yield plain(iterables.read()), plain(pickled.read())


@pytest.mark.parametrize("numbers", [FEW, MANY], ids=["few", "many"])
def test_groups_in_state(pipelines: Pipelines, numbers: range) -> None:
    with pipelines.new() as p:
        kept = pairs(p, numbers) | beam.GroupByKey() | beam.ParDo(Keep())
        assert_that(kept, equal_to([([list(numbers)], [list(numbers)])]))
