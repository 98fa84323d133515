"""Pipelines of a client of any version: ``python -c 'import pipelines; pipelines.main()'
--runner=PortableRunner ...``.

The module imports only Beam, and uses only features since 2.55. It prints ALL RIGHT at the end.
Workers import it, too: in old versions, pickles leave out the globals of a script.
"""

from __future__ import annotations

import sys
import typing

import apache_beam as beam
from apache_beam.coders import StrUtf8Coder, VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import FixedWindows, TimestampedValue

NUMBERS = 3000
WINDOW = 100


class Person(typing.NamedTuple):
    name: str
    age: int


beam.coders.registry.register_coder(Person, beam.coders.RowCoder)


class SetUp(beam.DoFn):
    """DoFn that depends on its `setup`."""

    def setup(self):
        self.factor = 2

    def process(self, element, offset):
        yield element * self.factor + offset


class Mean(beam.CombineFn):
    """Mean with a separate accumulator type."""

    def create_accumulator(self):
        return 0, 0

    def add_input(self, accumulator, element):
        return accumulator[0] + element, accumulator[1] + 1

    def merge_accumulators(self, accumulators):
        sums, counts = zip(*accumulators, strict=True)
        return sum(sums), sum(counts)

    def extract_output(self, accumulator):
        return accumulator[0] / accumulator[1]


class Gather(beam.DoFn):
    """DoFn that stores elements in state, and emits them at the end of the window."""

    WORDS = BagStateSpec("words", StrUtf8Coder())
    COUNT = CombiningValueStateSpec("count", VarIntCoder(), beam.combiners.CountCombineFn())
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        element,
        window=beam.DoFn.WindowParam,
        words=beam.DoFn.StateParam(WORDS),
        count=beam.DoFn.StateParam(COUNT),
        end=beam.DoFn.TimerParam(END),
    ):
        words.add(element[1])
        count.add(1)
        end.set(window.end)

    @on_timer(END)
    def tell(
        self,
        key=beam.DoFn.KeyParam,
        words=beam.DoFn.StateParam(WORDS),
        count=beam.DoFn.StateParam(COUNT),
    ):
        yield key, "".join(sorted(words.read())), count.read()


def elements(p):
    """Tests DoFns, side inputs of each kind, a user's CombineFn, grouping, windows, and rows."""
    numbers = p | beam.Create(range(NUMBERS))
    side = p | "side" >> beam.Create([("a", 1), ("b", 2)])
    one = p | "one" >> beam.Create([5])
    doubled = numbers | beam.ParDo(SetUp(), beam.pvalue.AsSingleton(one))
    assert_that(
        doubled | "mean" >> beam.CombineGlobally(Mean()), equal_to([NUMBERS + 4.0]), label="means"
    )
    looked_up = p | "keys" >> beam.Create(["a", "b", "a"])
    looked_up |= "look up" >> beam.Map(lambda k, d: d[k], beam.pvalue.AsDict(side))
    assert_that(looked_up, equal_to([1, 2, 1]), label="dicts")
    counts = numbers | beam.Map(
        lambda n, s: (n % 3, n + len(list(s)) - 2), beam.pvalue.AsIter(side)
    )
    grouped = counts | beam.GroupByKey() | beam.MapTuple(lambda k, v: (k, sum(v)))
    sums = [(k, sum(range(k, NUMBERS, 3))) for k in range(3)]
    assert_that(grouped, equal_to(sums), label="groups")
    windows = (
        numbers
        | "at" >> beam.Map(lambda n: TimestampedValue(("k", 1), n))
        | beam.WindowInto(FixedWindows(WINDOW))
        | beam.CombinePerKey(sum)
    )
    assert_that(windows, equal_to([("k", WINDOW)] * (NUMBERS // WINDOW)), label="windows")
    rows = beam.Create([Person("Ada", 36), Person("Alan", 41)]).with_output_types(Person)
    ages = p | "people" >> rows | beam.GroupBy("name").aggregate_field("age", sum, "years")
    told = ages | "told" >> beam.Map(lambda row: (row.name, row.years))
    assert_that(told, equal_to([("Ada", 36), ("Alan", 41)]), label="rows")


def state(p):
    """Tests state and timers in a TestStream."""
    stream = TestStream(coder=beam.coders.FastPrimitivesCoder())
    for number in range(10):
        stream = stream.add_elements([TimestampedValue((number % 2, "abcdefghij"[number]), number)])
    stream = stream.advance_watermark_to(20).add_elements([TimestampedValue((0, "x"), 25)])
    stream = (
        stream.advance_watermark_to(40)
        .advance_watermark_to_infinity()
        .with_output_types(tuple[int, str])
    )
    told = p | stream | beam.WindowInto(FixedWindows(10)) | beam.ParDo(Gather())
    assert_that(told, equal_to([(0, "acegi", 5), (1, "bdfhj", 5), (0, "x", 1)]))


def main():
    for steps, flags in ((elements, []), (state, ["--streaming"])):
        with beam.Pipeline(options=PipelineOptions([*sys.argv[1:], *flags])) as p:
            steps(p)
    print("ALL RIGHT")
