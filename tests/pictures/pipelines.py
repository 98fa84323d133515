"""The pipelines of the pictures: ``python tests/pictures/pipelines.py <name> <job endpoint>``."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse


class AskForRates(beam.DoFn):
    """Sleeps like a call to a slow service."""

    def process(self, currency: str) -> Iterator[tuple[str, float]]:
        Metrics.counter("rates", "asked").inc()
        logging.warning("the exchange does not answer")
        yield currency, self.ask(currency)

    def ask(self, currency: str) -> float:
        time.sleep(120)
        return 1.0


def price_of(line: str) -> float:
    return {"apple": 1.0, "pear": 2.0}[line]


def orders(pipeline: beam.Pipeline) -> None:
    """Builds a pipeline that waits for a side input whose producer blocks."""
    rates = (
        pipeline
        | "Currencies" >> beam.Create(["EUR"])
        | "Ask for rates" >> beam.ParDo(AskForRates())
    )
    _ = (
        pipeline
        | "Read orders" >> beam.Create([("EUR", amount) for amount in range(20_000)])
        | "Spread" >> beam.Reshuffle()
        | "Convert"
        >> beam.Map(lambda one, by: (one[0], one[1] * by[one[0]]), beam.pvalue.AsDict(rates))
        | "Sum" >> beam.CombinePerKey(sum)
        | "Report" >> beam.Map(logging.info)
    )


def prices(pipeline: beam.Pipeline) -> None:
    """Fails in user code."""
    lines = pipeline | "Read" >> beam.Create(["apple", "pear", "plum"])
    _ = lines | "Look up prices" >> beam.Map(price_of) | "Total" >> beam.CombineGlobally(sum)


def clicks(pipeline: beam.Pipeline) -> None:
    """Builds a stream."""
    _ = (
        pipeline
        | "Clicks" >> PeriodicImpulse(fire_interval=0.1)
        | "By page" >> beam.Map(lambda moment: (f"page {int(moment) % 3}", 1))
        | "Every 5 s" >> beam.WindowInto(beam.window.FixedWindows(5))
        | "Count" >> beam.CombinePerKey(sum)
        | "Publish" >> beam.Map(logging.info)
    )


def main(name: str, endpoint: str) -> None:
    build: Any = {"orders": orders, "prices": prices, "clicks": clicks}[name]
    options = PipelineOptions(
        [
            *("--runner=PortableRunner", f"--job_endpoint={endpoint}", f"--job_name={name}"),
            *(["--streaming"] if name == "clicks" else []),
        ]
    )
    with beam.Pipeline(options=options) as pipeline:
        build(pipeline)


if __name__ == "__main__":
    main(*sys.argv[1:])
