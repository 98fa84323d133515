"""Workloads of rows, dicts and batches, which pass generic code of Beam."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy
import pyarrow as pa
import pyarrow.parquet
from apache_beam.transforms import combiners
from workloads import Expected, end, itself, numbers, sum_below, workload

_FILES = 4
_STORES = 10_000
_QUANTITIES = 7
_RESULT = pa.schema(
    [
        ("store", pa.string()),
        ("revenue", pa.float64()),
        ("mean", pa.float64()),
        ("sales", pa.int64()),
    ]
)


def write_sales(folder: Path, rows: int) -> str:
    """Writes sales as Parquet files if they don't exist, and returns the pattern of their names."""
    sales = folder.parent / f"sales-{rows}"
    if not sales.exists():
        sales.mkdir()
        for part in range(_FILES):
            places = range(rows * part // _FILES, rows * (part + 1) // _FILES)
            columns = {
                "store": [f"store {n % _STORES}" for n in places],
                "product": [f"product {n % 100}" for n in places],
                "quantity": [n % _QUANTITIES for n in places],
                "day": [n % 365 for n in places],
                "price": [n % 50 / 4 for n in places],
                "paid": [n % 3 > 0 for n in places],
            }
            pyarrow.parquet.write_table(pa.table(columns), sales / f"part-{part}.parquet")
    return f"{sales}/*.parquet"


def count_sold(rows: int) -> int:
    """Returns how many rows have a quantity above 2."""
    whole, rest = divmod(rows, _QUANTITIES)
    return whole * (_QUANTITIES - 3) + max(0, rest - 3)


def end_with_sums(sold: beam.PCollection, rows: int, folder: Path) -> Expected:
    """Groups rows with a store and a revenue, writes the sums as Parquet, and counts the sales."""
    sums = sold | beam.GroupBy("store").aggregate_field("revenue", sum, "revenue").aggregate_field(
        "revenue", combiners.MeanCombineFn(), "mean"
    ).aggregate_field("revenue", combiners.CountCombineFn(), "sales")
    tables = sums | "Dicts" >> beam.Map(lambda row: row._asdict()).with_output_types(dict[str, Any])
    _ = tables | beam.io.WriteToParquet(str(folder / "sums"), _RESULT)
    end(sums, lambda row: row.sales)
    return Expected(min(rows, _STORES), count_sold(rows))


@workload(400_000, "rows of Parquet, three sums by field")
def rows(pipeline: beam.Pipeline, elements: int, folder: Path) -> Expected:
    sold = (
        pipeline
        | beam.io.ReadFromParquet(write_sales(folder, elements), as_rows=True)
        | beam.Filter(lambda row: row.quantity > 2)
        | beam.Map(lambda row: beam.Row(store=str(row.store), revenue=row.price * row.quantity))
    )
    return end_with_sums(sold, elements, folder)


@workload(400_000, "dicts of Parquet, three sums by field")
def dicts(pipeline: beam.Pipeline, elements: int, folder: Path) -> Expected:
    sold = (
        pipeline
        | beam.io.ReadFromParquet(write_sales(folder, elements))
        | beam.Filter(lambda row: row["quantity"] > 2)
        | beam.Map(
            lambda row: beam.Row(store=str(row["store"]), revenue=row["price"] * row["quantity"])
        )
    )
    return end_with_sums(sold, elements, folder)


@workload(400_000, "selected fields of rows of Parquet, grouped whole")
def selects(pipeline: beam.Pipeline, elements: int, folder: Path) -> Expected:
    groups = (
        pipeline
        | beam.io.ReadFromParquet(write_sales(folder, elements), as_rows=True)
        | beam.Select("store", "quantity", paid=lambda row: bool(row.paid))
        | beam.GroupBy("store")
    )
    end(groups, lambda group: sum(1 for _ in group[1]))
    return Expected(min(elements, _STORES), elements)


class AddOne(beam.DoFn):
    """DoFn that adds one to each number of a NumPy array."""

    def process_batch(self, batch: Any) -> Iterator[Any]:
        yield batch + 1

    def get_input_batch_type(self, input_element_type: Any) -> Any:
        return numpy.ndarray

    def get_output_batch_type(self, input_element_type: Any) -> Any:
        return numpy.ndarray

    def infer_output_type(self, input_element_type: Any) -> Any:
        return input_element_type


@workload(400_000, "three batched DoFns of NumPy arrays")
def arrays(pipeline: beam.Pipeline, elements: int, folder: Path) -> Expected:
    result = numbers(pipeline, elements) | "Int64" >> beam.Map(itself).with_output_types(
        numpy.int64
    )
    for place in range(3):
        result = result | f"Add {place}" >> beam.ParDo(AddOne())
    end(result, int)
    return Expected(elements, sum_below(elements) + 3 * elements)
