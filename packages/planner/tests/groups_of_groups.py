"""Small pipelines that group values which are iterables in the encoding of the Beam model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.coders import IterableCoder, VarIntCoder
from stateful_fn import Stateful


def group_groups(p: beam.Pipeline) -> None:
    once = p | beam.Create([("a", 1)]) | "one" >> beam.GroupByKey()
    twice = once | "two" >> beam.GroupByKey()
    twice | "three" >> beam.GroupByKey() | beam.Map(str)


def group_iterables(p: beam.Pipeline) -> None:
    pairs = p | beam.Create([("a", [1])])
    for index, hint in enumerate((tuple[str, Iterable[int]], tuple[str, Iterable[Any]])):
        hinted = pairs | f"hint {index}" >> beam.Map(lambda x: x).with_output_types(hint)
        hinted | f"group {index}" >> beam.GroupByKey() | f"text {index}" >> beam.Map(str)


def group_into_other_types(p: beam.Pipeline) -> None:
    pairs = p | beam.Create([("a", 1)]) | beam.Map(lambda x: x).with_output_types(tuple[Any, Any])
    grouped = pairs | beam.GroupByKey().with_output_types(tuple[str, Iterable[int]])
    grouped | beam.Map(str)


def flatten_groups_then_group(p: beam.Pipeline) -> None:
    pairs = p | beam.Create([("a", 1)])
    left = pairs | "left" >> beam.GroupByKey()
    right = pairs | "right" >> beam.GroupByKey()
    (left, right) | beam.Flatten() | "both" >> beam.GroupByKey() | beam.Map(str)


def reshuffle_groups_then_group(p: beam.Pipeline) -> None:
    groups = p | beam.Create([("a", 1)]) | beam.GroupByKey()
    groups | beam.Reshuffle() | "again" >> beam.GroupByKey() | beam.Map(str)


class _Collect(beam.CombineFn):
    """A combine function whose accumulators are iterables of the Beam model."""

    def create_accumulator(self) -> list[int]:
        return []

    def add_input(self, accumulator: list[int], element: int) -> list[int]:
        return [*accumulator, element]

    def merge_accumulators(self, accumulators: Iterable[list[int]]) -> list[int]:
        return [each for accumulator in accumulators for each in accumulator]

    def extract_output(self, accumulator: list[int]) -> list[int]:
        return accumulator

    def get_accumulator_coder(self) -> IterableCoder:
        return IterableCoder(VarIntCoder())


def combine_iterables(p: beam.Pipeline) -> None:
    p | beam.Create([("a", 1)]) | beam.CombinePerKey(_Collect()) | beam.Map(str)


def groups_everywhere(p: beam.Pipeline) -> None:
    groups = p | beam.Create([("a", 1)]) | beam.GroupByKey()
    groups | "again" >> beam.GroupByKey() | "text" >> beam.Map(str)
    groups | beam.ParDo(Stateful())
    main = p | "main" >> beam.Create([1])
    main | "list" >> beam.Map(lambda x, y: y, pvalue.AsList(groups))
    main | "map" >> beam.Map(lambda x, y: y, pvalue.AsMultiMap(groups))


def side_input_of_groups(p: beam.Pipeline) -> None:
    grouped = p | beam.Create([("a", 1)]) | beam.GroupByKey()
    p | "main" >> beam.Create([1]) | beam.Map(lambda x, y: y, pvalue.AsIter(grouped))


ALL: tuple[Callable[[beam.Pipeline], Any], ...] = (
    group_groups,
    group_iterables,
    group_into_other_types,
    flatten_groups_then_group,
    reshuffle_groups_then_group,
    combine_iterables,
    groups_everywhere,
    side_input_of_groups,
)
