"""Groups clicks into sessions: event time and merging windows."""

from __future__ import annotations

import sys
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import Sessions, TimestampedValue

CLICKS = [("ada", 0), ("tim", 5), ("ada", 20), ("ada", 100), ("tim", 200)]


def session(element: Any, window: Any = beam.DoFn.WindowParam) -> Any:
    user, clicks = element
    return f"{user} {int(window.start)}-{int(window.end)} {clicks}"


def main(output: str, *options: str) -> None:
    with beam.Pipeline(options=PipelineOptions(options)) as pipeline:
        (
            pipeline
            | "Clicks" >> beam.Create(CLICKS)
            | "Event time" >> beam.MapTuple(lambda user, time: TimestampedValue((user, 1), time))
            | "Sessions" >> beam.WindowInto(Sessions(30))
            | "Count" >> beam.CombinePerKey(sum)
            | "Format" >> beam.Map(session)
            | "Global" >> beam.WindowInto(beam.window.GlobalWindows())
            | "Write" >> beam.io.WriteToText(output)
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
