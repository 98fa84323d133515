"""Joins orders with customers by key: CoGroupByKey."""

from __future__ import annotations

import sys
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

CUSTOMERS = [(1, "Ada"), (2, "Tim")]
ORDERS = [(1, "book"), (1, "lamp"), (2, "pen"), (3, "cup")]


def joined(customer_id: Any, found: Any) -> Any:
    for name in found["customers"] or ["unknown"]:
        for order in found["orders"]:
            yield f"{name} {order}"


def main(output: str, *options: str) -> None:
    with beam.Pipeline(options=PipelineOptions(options)) as pipeline:
        customers = pipeline | "Customers" >> beam.Create(CUSTOMERS)
        orders = pipeline | "Orders" >> beam.Create(ORDERS)
        (
            {"customers": customers, "orders": orders}
            | "Join" >> beam.CoGroupByKey()
            | "Format" >> beam.FlatMapTuple(joined)
            | "Write" >> beam.io.WriteToText(output)
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
