"""Drops repeated events by their id: a stateful DoFn with one flag per key."""

from __future__ import annotations

import sys
from typing import Any

import apache_beam as beam
from apache_beam.coders import BooleanCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec

EVENTS = [("e1", "login"), ("e2", "click"), ("e1", "login"), ("e3", "logout"), ("e2", "click")]


class FirstOfEachKey(beam.DoFn):
    SEEN = ReadModifyWriteStateSpec("seen", BooleanCoder())

    def process(self, element: tuple[str, int], seen: Any = beam.DoFn.StateParam(SEEN)) -> Any:
        if not seen.read():
            seen.write(True)
            yield f"{element[0]} {element[1]}"


def main(output: str, *options: str) -> None:
    with beam.Pipeline(options=PipelineOptions(options)) as pipeline:
        (
            pipeline
            | "Events" >> beam.Create(EVENTS)
            | "Deduplicate" >> beam.ParDo(FirstOfEachKey())
            | "Write" >> beam.io.WriteToText(output)
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
