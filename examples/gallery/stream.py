"""Counts the ticks of a stream: an unbounded source, windows, and a result after the source ends."""

from __future__ import annotations

import sys
import time

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.trigger import AccumulationMode, AfterWatermark
from apache_beam.transforms.window import FixedWindows, GlobalWindows


def save(line: str, output: str) -> None:
    """Writes a file whose name comes from the data, so that a retry overwrites the same file."""
    with open(f"{output}-{line}", "w") as file:
        print(line, file=file)


def main(output: str, *options: str) -> None:
    begin = int(time.time())
    count = beam.CombineGlobally(beam.combiners.CountCombineFn()).without_defaults()
    at_the_end = {"trigger": AfterWatermark(), "accumulation_mode": AccumulationMode.DISCARDING}
    with beam.Pipeline(options=PipelineOptions(options, streaming=True)) as pipeline:
        (
            pipeline
            | "Ticks" >> PeriodicImpulse(begin, begin + 3, fire_interval=0.1)
            | "Seconds" >> beam.WindowInto(FixedWindows(1))
            | "Count" >> count
            | "Global" >> beam.WindowInto(GlobalWindows(), **at_the_end)
            | "Sum" >> beam.CombineGlobally(sum).without_defaults()
            | "Write" >> beam.Map(save, output)
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
