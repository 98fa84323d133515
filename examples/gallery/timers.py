"""Sums values per key and emits each sum once, at the end of the window: state with a timer."""

from __future__ import annotations

import sys
from typing import Any

import apache_beam as beam
from apache_beam.coders import StrUtf8Coder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    CombiningValueStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import FixedWindows, TimestampedValue

READINGS = [("a", 1, 1), ("b", 5, 2), ("a", 2, 8), ("a", 10, 12)]


class SumPerWindow(beam.DoFn):
    SUM = CombiningValueStateSpec("sum", sum)
    NAME = ReadModifyWriteStateSpec("name", StrUtf8Coder())
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[str, int],
        window: Any = beam.DoFn.WindowParam,
        total: Any = beam.DoFn.StateParam(SUM),
        name: Any = beam.DoFn.StateParam(NAME),
        end: Any = beam.DoFn.TimerParam(END),
    ) -> None:
        name.write(element[0])
        total.add(element[1])
        end.set(window.end)

    @on_timer(END)
    def emit(
        self, total: Any = beam.DoFn.StateParam(SUM), name: Any = beam.DoFn.StateParam(NAME)
    ) -> Any:
        yield f"{name.read()} {total.read()}"


def main(output: str, *options: str) -> None:
    with beam.Pipeline(options=PipelineOptions(options)) as pipeline:
        (
            pipeline
            | "Readings" >> beam.Create(READINGS)
            | "Event time"
            >> beam.MapTuple(lambda name, value, at: TimestampedValue((name, value), at))
            | "Windows" >> beam.WindowInto(FixedWindows(10))
            | "Sum" >> beam.ParDo(SumPerWindow())
            | "Global" >> beam.WindowInto(beam.window.GlobalWindows())
            | "Write" >> beam.io.WriteToText(output)
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
