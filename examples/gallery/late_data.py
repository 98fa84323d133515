"""Counts in windows with early, on-time and late panes: triggers, with a TestStream as the source."""

from __future__ import annotations

import sys
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, AfterWatermark
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.windowed_value import PaneInfoTiming


def pane(element: tuple[str, int], info: Any = beam.DoFn.PaneInfoParam) -> str:
    key, count = element
    return f"{key} {count} {PaneInfoTiming.to_string(info.timing)}"


def save(line: str, output: str) -> None:
    """Writes a file whose name comes from the data, so that a retry overwrites the same file."""
    with open(f"{output}-{line}", "w") as file:
        print(line, file=file)


def main(output: str, *options: str) -> None:
    source = TestStream()
    source.advance_watermark_to(0)
    source.add_elements([TimestampedValue(("a", 1), 1), TimestampedValue(("a", 1), 2)])
    source.add_elements([TimestampedValue(("a", 1), 3)])
    source.advance_watermark_to(11)
    source.add_elements([TimestampedValue(("a", 1), 4)])
    source.advance_watermark_to_infinity()
    windows = beam.WindowInto(
        FixedWindows(10),
        trigger=AfterWatermark(early=AfterCount(2), late=AfterCount(1)),
        allowed_lateness=60,
        accumulation_mode=AccumulationMode.DISCARDING,
    )
    with beam.Pipeline(options=PipelineOptions(options, streaming=True)) as pipeline:
        (
            pipeline
            | "Source" >> source
            | "Windows" >> windows
            | "Count" >> beam.CombinePerKey(sum)
            | "Format" >> beam.Map(pane)
            | "Write" >> beam.Map(save, output)
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
