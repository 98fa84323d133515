"""Separates damaged records from good ones and counts them: tagged outputs and metrics."""

from __future__ import annotations

import json
import sys
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions

LINES = ['{"user": "ada"}', "not json", '{"user": "tim"}']


class Parse(beam.DoFn):
    damaged = Metrics.counter("records", "damaged")

    def process(self, line: str) -> Any:
        try:
            yield json.loads(line)["user"]
        except (ValueError, KeyError):
            self.damaged.inc()
            yield beam.pvalue.TaggedOutput("damaged", line)


def main(output: str, *options: str) -> None:
    pipeline = beam.Pipeline(options=PipelineOptions(options))
    lines = pipeline | "Lines" >> beam.Create(LINES)
    good, damaged = lines | "Parse" >> beam.ParDo(Parse()).with_outputs("damaged", main="good")
    good | "Good" >> beam.io.WriteToText(f"{output}-good")
    damaged | "Damaged" >> beam.io.WriteToText(f"{output}-damaged")
    result = pipeline.run()
    result.wait_until_finish()
    (counter,) = result.metrics().query(beam.metrics.MetricsFilter().with_name("damaged"))[
        "counters"
    ]
    print(f"{counter.committed} damaged")


if __name__ == "__main__":
    main(*sys.argv[1:])
