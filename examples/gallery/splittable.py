"""Generates numbers with a splittable DoFn, which the runner splits and checkpoints."""

from __future__ import annotations

import sys
from typing import Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.core import RestrictionProvider


class UpTo(RestrictionProvider):
    def initial_restriction(self, element: Any) -> Any:
        return OffsetRange(0, element)

    def create_tracker(self, restriction: Any) -> Any:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: Any, restriction: Any) -> int:
        return restriction.size()


class Numbers(beam.DoFn):
    def process(self, element: Any, tracker: Any = beam.DoFn.RestrictionParam(UpTo())) -> Any:
        number = tracker.current_restriction().start
        while tracker.try_claim(number):
            yield number
            number += 1


def main(output: str, *options: str) -> None:
    with beam.Pipeline(options=PipelineOptions(options)) as pipeline:
        (
            pipeline
            | "Limit" >> beam.Create([100_000])
            | "Numbers" >> beam.ParDo(Numbers())
            | "Sum" >> beam.CombineGlobally(sum)
            | "Write" >> beam.io.WriteToText(output)
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
