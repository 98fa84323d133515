"""A stream with every kind of step that has data, as clients of any version submit it: ``python
updated_stream.py FILE`` writes the pipeline to a file.

The module imports only Beam, and uses only features since 2.55. Its classes are in ``__main__``, so
the SDK pickles them by value.
"""

from __future__ import annotations

import sys
import typing

import apache_beam as beam
from apache_beam.coders import StrUtf8Coder, VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.portable_runner import PortableRunner
from apache_beam.transforms import trigger, window
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
    TimerSpec,
    on_timer,
)

OPTIONS = ("--environment_type=EXTERNAL", "--environment_config=localhost:1")


# Beam reads the types of fields, which are texts in a class of this module.
_FIELDS = [("item", str), ("price", int), ("note", typing.Optional[str])]  # noqa: UP045
Order = typing.NamedTuple("Order", _FIELDS)
beam.coders.registry.register_coder(Order, beam.coders.RowCoder)


class Basket:
    """A class that only a pickle can encode."""


class Count(beam.DoFn):
    """A stateful DoFn with states of several kinds and timers of both domains."""

    TOTAL = CombiningValueStateSpec("total", VarIntCoder(), sum)
    LAST = ReadModifyWriteStateSpec("last", beam.coders.RowCoder.from_type_hint(Order, None))
    SEEN = SetStateSpec("seen", StrUtf8Coder())
    BASKETS = BagStateSpec("baskets", beam.coders.registry.get_coder(Basket))
    ALARM = TimerSpec("alarm", TimeDomain.WATERMARK)
    CLOCK = TimerSpec("clock", TimeDomain.REAL_TIME)

    def process(
        self,
        element,
        total=beam.DoFn.StateParam(TOTAL),
        last=beam.DoFn.StateParam(LAST),
        seen=beam.DoFn.StateParam(SEEN),
        baskets=beam.DoFn.StateParam(BASKETS),
        alarm=beam.DoFn.TimerParam(ALARM),
        clock=beam.DoFn.TimerParam(CLOCK),
    ):
        """Passes an element on."""
        yield element

    @on_timer(ALARM)
    def ring(self):
        """Does nothing."""

    @on_timer(CLOCK)
    def strike(self):
        """Does nothing."""


class Mean(beam.CombineFn):
    """A mean whose accumulator has another type than its result."""

    def create_accumulator(self):
        """Returns an empty accumulator."""
        return 0, 0

    def add_input(self, accumulator, element):
        """Returns an accumulator with one more element."""
        return accumulator[0] + element, accumulator[1] + 1

    def merge_accumulators(self, accumulators):
        """Returns the sum of accumulators."""
        sums, counts = zip(*accumulators, strict=True)
        return sum(sums), sum(counts)

    def extract_output(self, accumulator):
        """Returns the mean."""
        return accumulator[0] / max(1, accumulator[1])


def build(p):
    """Adds the stream to a pipeline."""
    ticks = p | "ticks" >> PeriodicImpulse(0, 1000, 1)
    pairs = ticks | beam.Map(lambda tick: ("key", int(tick))).with_output_types(tuple[str, int])
    limits = p | beam.Create(["a", "b", "c"])
    counted = pairs | beam.ParDo(Count())
    counted | beam.Map(lambda pair, limits: pair, beam.pvalue.AsDict(limits | beam.WithKeys(len)))
    windowed = pairs | beam.WindowInto(
        window.SlidingWindows(20, 10),
        trigger=trigger.Repeatedly(trigger.AfterProcessingTime(5)),
        accumulation_mode=trigger.AccumulationMode.ACCUMULATING,
        allowed_lateness=60,
    )
    windowed | beam.CombinePerKey(Mean()) | "print means" >> beam.Map(print)
    windowed | beam.CombinePerKey(lambda values: sum(values)) | "print sums" >> beam.Map(print)
    windowed | beam.GroupByKey() | "print groups" >> beam.Map(print)
    rows = pairs | "rows" >> beam.Map(lambda pair: Order(*pair, None)).with_output_types(Order)
    rows | beam.Reshuffle() | "print rows" >> beam.Map(print)
    baskets = pairs | "baskets" >> beam.Map(lambda pair: Basket()).with_output_types(Basket)
    (baskets, baskets) | beam.Flatten() | "spread" >> beam.Reshuffle() | beam.Map(print)


def main():
    """Writes the pipeline to the file that the command line names."""
    options = PipelineOptions(OPTIONS)
    pipeline = beam.Pipeline(options=options)
    build(pipeline)
    proto = PortableRunner.get_proto_pipeline(pipeline, options)
    for environment in proto.components.environments.values():
        del environment.dependencies[:]
    with open(sys.argv[1], "wb") as file:
        file.write(proto.SerializeToString())


if __name__ == "__main__":
    main()
