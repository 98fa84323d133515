"""Side inputs of every kind are whole when they are read, and looked up by window."""

from __future__ import annotations

from typing import Any

import apache_beam as beam
import pytest
from apache_beam import pvalue
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import (
    FixedWindows,
    SlidingWindows,
    TimestampCombiner,
    TimestampedValue,
)
from jobs import Pipelines, timestamped


def test_every_kind(everywhere: Pipelines) -> None:
    with everywhere.new() as p:
        main = p | "main" >> beam.Create([1, 2])
        pairs = p | "pairs" >> beam.Create([("a", 1), ("b", 2)])
        more = p | "more" >> beam.Create([("a", 1), ("b", 2), ("a", 3)])
        numbers = p | "numbers" >> beam.Create([3, 1, 2])
        one = p | "one" >> beam.Create([10])

        def use(number: int, *sides: Any) -> Any:
            single, listed, mapped, multimap, iterable, total = sides
            return (
                number + single,
                sorted(listed),
                sorted(mapped.items()),
                {key: sorted(multimap[key]) for key in ("a", "b", "c")},
                sum(iterable),
                total,
            )

        used = main | beam.Map(
            use,
            pvalue.AsSingleton(one),
            pvalue.AsList(numbers),
            pvalue.AsDict(pairs),
            pvalue.AsMultiMap(more),
            pvalue.AsIter(numbers),
            pvalue.AsSingleton(numbers | beam.CombineGlobally(sum)),
        )
        rest = ([1, 2, 3], [("a", 1), ("b", 2)], {"a": [1, 3], "b": [2], "c": []}, 6, 6)
        assert_that(used, equal_to([(11, *rest), (12, *rest)]))


def test_empty_side_inputs(pipelines: Pipelines) -> None:
    with pipelines.new() as p:
        nothing = p | "nothing" >> beam.Create([])
        no_pairs = p | "no pairs" >> beam.Create([]) | beam.Map(lambda n: (n, n))
        used = (
            p
            | beam.Create([1])
            | beam.Map(
                lambda n, single, listed, mapped, multimap, iterable: (
                    n,
                    single,
                    listed,
                    mapped,
                    list(multimap["k"]),
                    list(iterable),
                ),
                pvalue.AsSingleton(nothing, default_value="none"),
                pvalue.AsList(nothing),
                pvalue.AsDict(no_pairs),
                pvalue.AsMultiMap(no_pairs),
                pvalue.AsIter(nothing),
            )
        )
        assert_that(used, equal_to([(1, "none", [], {}, [], [])]))


def test_a_source_is_its_own_side_input(pipelines: Pipelines) -> None:
    with pipelines.new() as p:
        numbers = p | beam.Create([1, 2, 3])
        shares = numbers | beam.Map(lambda n, rest: (n, sum(rest)), pvalue.AsIter(numbers))
        assert_that(shares, equal_to([(1, 6), (2, 6), (3, 6)]), label="itself")
        total = numbers | beam.CombineGlobally(sum)
        again = numbers | "share" >> beam.Map(lambda n, all_: n / all_, pvalue.AsSingleton(total))
        assert_that(again, equal_to([1 / 6, 2 / 6, 3 / 6]), label="its sum")


def test_a_side_input_that_depends_on_side_inputs(pipelines: Pipelines) -> None:
    with pipelines.new() as p:
        first = p | "first" >> beam.Create([1])
        second = first | "second" >> beam.Map(lambda n, s: n + s[0], pvalue.AsList(first))
        third = second | "third" >> beam.Map(lambda n, s: n + s[0], pvalue.AsList(second))
        both = third | "both" >> beam.Map(
            lambda n, a, b: (n, a, b), pvalue.AsSingleton(first), pvalue.AsSingleton(second)
        )
        assert_that(both, equal_to([(4, 1, 2)]))


def test_each_of_two_is_the_side_input_of_the_other(pipelines: Pipelines) -> None:
    with pipelines.new() as p:
        left = p | "left" >> beam.Create([1, 2])
        right = p | "right" >> beam.Create([3, 4])

        def with_sum(number: int, others: list[int]) -> tuple[int, int]:
            return number, sum(others)

        of_left = left | "of left" >> beam.Map(with_sum, pvalue.AsList(right))
        of_right = right | "of right" >> beam.Map(with_sum, pvalue.AsList(left))
        assert_that(of_left, equal_to([(1, 7), (2, 7)]), label="left")
        assert_that(of_right, equal_to([(3, 3), (4, 3)]), label="right")


def test_groups_as_side_input(pipelines: Pipelines) -> None:
    with pipelines.new() as p:
        groups = p | "pairs" >> beam.Create([("a", 1), ("a", 2), ("b", 3)]) | beam.GroupByKey()
        used = (
            p
            | beam.Create(["a", "b"])
            | beam.Map(lambda key, groups: (key, sorted(groups[key])), pvalue.AsDict(groups))
        )
        assert_that(used, equal_to([("a", [1, 2]), ("b", [3])]))


def test_each_window_sees_its_own(pipelines: Pipelines) -> None:
    with pipelines.new() as p:
        main = (
            p
            | "main" >> timestamped([("m1", 1), ("m5", 5), ("m12", 12), ("m31", 31)])
            | "fixed main" >> beam.WindowInto(FixedWindows(10))
        )
        side = p | "side" >> timestamped([("s2", 2), ("s8", 8), ("s15", 15), ("s22", 22)])
        same = side | "fixed side" >> beam.WindowInto(FixedWindows(10))
        assert_that(
            main | "same" >> beam.Map(lambda m, s: (m, sorted(s)), pvalue.AsList(same)),
            equal_to([("m1", ["s2", "s8"]), ("m5", ["s2", "s8"]), ("m12", ["s15"]), ("m31", [])]),
            label="same windows",
        )
        larger = side | "larger side" >> beam.WindowInto(FixedWindows(20))
        assert_that(
            main | "larger" >> beam.Map(lambda m, s: (m, sorted(s)), pvalue.AsIter(larger)),
            equal_to(
                [
                    ("m1", ["s15", "s2", "s8"]),
                    ("m5", ["s15", "s2", "s8"]),
                    ("m12", ["s15", "s2", "s8"]),
                    ("m31", ["s22"]),
                ]
            ),
            label="larger windows",
        )
        counts = same | beam.CombineGlobally(beam.combiners.CountCombineFn()).without_defaults()
        assert_that(
            main
            | "count" >> beam.Map(lambda m, s: (m, s), pvalue.AsSingleton(counts, default_value=0)),
            equal_to([("m1", 2), ("m5", 2), ("m12", 1), ("m31", 0)]),
            label="a singleton in every window",
        )
        assert_that(
            main | "global" >> beam.Map(lambda m, s: (m, len(s)), pvalue.AsList(side)),
            equal_to([("m1", 4), ("m5", 4), ("m12", 4), ("m31", 4)]),
            label="global windows",
        )


def test_an_element_in_several_windows_sees_each(pipelines: Pipelines) -> None:
    with pipelines.new() as p:
        main = (
            p
            | "main" >> timestamped([("m", 7)])
            | "sliding" >> beam.WindowInto(SlidingWindows(10, 5))
        )
        side = (
            p
            | "side" >> timestamped([(("k", 2), 2), (("k", 12), 12)], tuple[str, int])
            | "fixed" >> beam.WindowInto(FixedWindows(10))
        )
        # [0, 10) ends in [0, 10); [5, 15) ends in [10, 20).
        used = main | beam.Map(lambda m, s: (m, list(s["k"])), pvalue.AsMultiMap(side))
        assert_that(used, equal_to([("m", [2]), ("m", [12])]))


class SumBeside(beam.CombineFn):
    """The sum, and what is read beside it."""

    def create_accumulator(self, side: Any) -> int:
        return 0

    def add_input(self, total: int, number: int, side: Any) -> int:
        return total + number

    def merge_accumulators(self, totals: Any, side: Any) -> int:
        return sum(totals)

    def extract_output(self, total: int, side: Any) -> tuple[int, list[int]]:
        return total, sorted(side)


COMBINERS = [
    TimestampCombiner.OUTPUT_AT_EOW,
    TimestampCombiner.OUTPUT_AT_EARLIEST,
    TimestampCombiner.OUTPUT_AT_LATEST,
]


@pytest.mark.parametrize("combiner", COMBINERS)
def test_a_combine_that_reads_beside(pipelines: Pipelines, combiner: Any) -> None:
    """Beam's SDK writes what it has combined before the shuffle a moment beyond its window."""
    with pipelines.new() as p:
        numbers = (
            p
            | timestamped([(n, n) for n in (3, 4, 15)], int)
            | beam.WindowInto(FixedWindows(10), timestamp_combiner=combiner)
        )
        tens = numbers | "tens" >> beam.Map(lambda n: 10 * n)
        sums = numbers | beam.CombineGlobally(SumBeside(), pvalue.AsIter(tens)).without_defaults()
        assert_that(sums, equal_to([(7, [30, 40]), (15, [150])]))


@pytest.mark.parametrize("combiner", COMBINERS)
def test_a_combine_that_reads_beside_in_a_stream(pipelines: Pipelines, combiner: Any) -> None:
    with pipelines.new("--streaming") as p:
        stream = Stream().advance_watermark_to(0)
        for time in (3, 4, 15):
            stream = stream.add_elements([TimestampedValue(("k", time), time)])
            stream = stream.advance_watermark_to(time + 5)
        numbers = (
            p
            | stream.advance_watermark_to_infinity()
            | beam.Map(lambda pair: pair).with_output_types(tuple[str, int])
            | beam.WindowInto(FixedWindows(10), timestamp_combiner=combiner)
        )
        tens = numbers | "tens" >> beam.Map(lambda pair: 10 * pair[1])
        sums = numbers | beam.CombinePerKey(SumBeside(), pvalue.AsIter(tens))
        again = sums | beam.GroupByKey() | beam.MapTuple(lambda key, groups: (key, list(groups)))
        assert_that(again, equal_to([("k", [(7, [30, 40])]), ("k", [(15, [150])])]))


def test_a_large_side_input(pipelines: Pipelines) -> None:
    with pipelines.new() as p:
        side = (
            p | "side" >> beam.Create(range(50)) | beam.FlatMap(lambda n: [(n, bytes(1000))] * 100)
        )
        sizes = (
            p
            | beam.Create([0, 1])
            | beam.Map(lambda n, s: (n, sum(len(value) for _, value in s)), pvalue.AsIter(side))
        )
        assert_that(sizes, equal_to([(0, 5_000_000), (1, 5_000_000)]))
