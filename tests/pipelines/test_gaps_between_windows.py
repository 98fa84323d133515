"""Elements that are in no window vanish, whatever reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam import pvalue
from apache_beam.coders import VarIntCoder
from apache_beam.coders.coders import Coder, IntervalWindowCoder
from apache_beam.testing.test_stream import TestStream as Stream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms import window
from apache_beam.transforms.userstate import BagStateSpec
from apache_beam.transforms.window import TimestampedValue
from jobs import Pipelines, timestamped

Pairs = beam.PCollection
PAIRS = [(f"k{time}", time) for time in range(12)]
INSIDE = [pair for pair in PAIRS if pair[1] % 4 < 2]


class OnlySome(window.NonMergingWindowFn):
    """A window function of a user, which gives half of the elements no window."""

    def assign(self, context: Any) -> list[window.IntervalWindow]:
        time = int(context.timestamp)
        return [window.IntervalWindow(time, time + 1)] if time % 4 < 2 else []

    def get_window_coder(self) -> Coder:
        return IntervalWindowCoder()


class Total(beam.DoFn):
    """Adds up the values of a key in state."""

    SEEN = BagStateSpec("seen", VarIntCoder())

    def process(
        self, pair: tuple[str, int], seen: Any = beam.DoFn.StateParam(SEEN)
    ) -> Iterator[tuple[str, int]]:
        seen.add(pair[1])
        yield pair[0], sum(seen.read())


def grouped(pairs: Pairs) -> Pairs:
    return pairs | beam.GroupByKey() | beam.FlatMapTuple(lambda k, v: [(k, n) for n in v])


def flattened(pairs: Pairs) -> Pairs:
    others = pairs | beam.Filter(lambda pair: False)
    return (pairs, others) | beam.Flatten() | beam.Reshuffle()


def joined(pairs: Pairs) -> Pairs:
    """With a side input in the same windows."""
    look = beam.FlatMap(lambda pair, side: [pair] if pair in side else [], pvalue.AsList(pairs))
    return pairs | look


def all_in_a_side_input(pairs: Pairs) -> Pairs:
    everywhere = pairs | beam.WindowInto(window.GlobalWindows())
    once = pairs.pipeline | beam.Create([None])
    return once | beam.FlatMap(lambda _, side: side, pvalue.AsIter(everywhere))


def merged(pairs: Pairs) -> Pairs:
    return grouped(pairs | beam.WindowInto(window.Sessions(1)))


CONSUMERS: tuple[Callable[[Pairs], Pairs], ...] = (
    grouped,
    lambda pairs: pairs | beam.CombinePerKey(sum),
    lambda pairs: pairs | beam.Reshuffle(),
    flattened,
    lambda pairs: pairs | beam.ParDo(Total()),
    joined,
    all_in_a_side_input,
    merged,
)


class Consume(beam.PTransform):
    """One of the consumers, by its number."""

    def __init__(self, number: int) -> None:
        super().__init__(str(number))
        self.number = number

    def expand(self, pairs: Pairs) -> Pairs:
        return CONSUMERS[self.number](pairs)


def check_all(pairs: Pairs) -> None:
    for number in range(len(CONSUMERS)):
        assert_that(pairs | Consume(number), equal_to(INSIDE), f"check {number}")


def test_what_is_in_no_window_vanishes(pipelines: Pipelines) -> None:
    with pipelines.new() as p:
        elements = [(pair, pair[1]) for pair in PAIRS]
        pairs = p | timestamped(elements, tuple[str, int])
        check_all(pairs | beam.WindowInto(window.SlidingWindows(2, 4)))
        own = pairs | "Own" >> beam.WindowInto(OnlySome()) | "Deal" >> beam.Reshuffle()
        assert_that(grouped(own), equal_to(INSIDE), "own")


def test_what_is_in_no_window_vanishes_from_a_stream(pipelines: Pipelines) -> None:
    with pipelines.new("--streaming") as p:
        script = Stream(coder=beam.coders.FastPrimitivesCoder())
        for pair in PAIRS:
            script = script.add_elements([TimestampedValue(pair, pair[1])])
            script = script.advance_watermark_to(pair[1])
        pairs = p | script.advance_watermark_to_infinity()
        hinted = pairs | beam.Map(lambda pair: pair).with_output_types(tuple[str, int])
        check_all(hinted | beam.WindowInto(window.SlidingWindows(2, 4)))
