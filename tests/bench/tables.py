"""Cost of a table in a pipeline compared with a handwritten `mapInArrow` with one function per row:
``nox -s bench_tables``.

Each variant is a separate program, from the start of Spark to its exit, and the variants alternate.
The cost is CPU seconds of all processes, for the table and for a table with few rows, which is the
cost of the start.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parent))

from costs import cost_of

FEW = 1_000
MASTER = "local[2]"
_FILES = 10


class Event(NamedTuple):
    """A row, of ten columns."""

    id: int
    user: int
    hour: int
    quantity: int
    price: float
    amount: float
    discount: float
    kind: str
    country: str
    paid: bool


SCHEMA = pa.schema(
    [
        *((name, pa.int64()) for name in ("id", "user", "hour", "quantity")),
        *((name, pa.float64()) for name in ("price", "amount", "discount")),
        *((name, pa.string()) for name in ("kind", "country")),
        ("paid", pa.bool_()),
    ]
)


def settled(event: Event) -> Event:
    """Computes the result of each row, in all variants."""
    amount = event.price * event.quantity * (1 - event.discount)
    return event._replace(amount=amount, kind=event.kind.upper(), paid=event.paid or amount < 1)


def make(folder: Path, rows: int) -> None:
    """Writes a table."""
    folder.mkdir()
    random = np.random.default_rng(20)
    for number in range(_FILES):
        ids = np.arange(number, rows, _FILES)
        columns = {
            "id": ids,
            "user": random.integers(0, 1 << 40, len(ids)),
            "hour": random.integers(0, 500_000, len(ids)),
            "quantity": random.integers(1, 20, len(ids)),
            "price": random.random(len(ids)) * 100,
            "amount": np.zeros(len(ids)),
            "discount": random.random(len(ids)) / 2,
            "kind": np.array(["click", "view", "buy", "return"])[random.integers(0, 4, len(ids))],
            "country": [f"country {n}" for n in random.integers(0, 200, len(ids)).tolist()],
            "paid": random.random(len(ids)) < 0.5,
        }
        pq.write_table(pa.Table.from_pydict(columns, SCHEMA), folder / f"{number}.parquet")


def by_hand(source: str, target: str) -> None:
    """Converts columns to rows and back without dictionaries, as an optimized handwritten job does."""
    from pyspark.sql import SparkSession

    def batches(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in given:
            columns = [column.to_pylist() for column in batch.columns]
            rows = [settled(row) for row in map(Event, *columns)]
            values = zip(*rows, strict=True)
            arrays = [pa.array(v, field.type) for v, field in zip(values, SCHEMA, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)

    session = SparkSession.builder.master(MASTER).config("spark.ui.enabled", "false").getOrCreate()
    frame = session.read.parquet(source)
    frame.mapInArrow(batches, frame.schema).write.parquet(target)


def by_spark(source: str, target: str) -> None:
    """Runs `ReadFromSpark | Map | WriteToSpark`."""
    import apache_beam as beam
    from beam_spark_io import ReadFromSpark, WriteToSpark

    with _pipeline() as pipeline:
        (
            pipeline
            | ReadFromSpark("parquet", path=source, schema=Event)
            | beam.Map(settled).with_output_types(Event)
            | WriteToSpark("parquet", target)
        )


def by_beam(source: str, target: str) -> None:
    """Runs the pipeline with Beam's reader and writer."""
    import apache_beam as beam

    with _pipeline() as pipeline:
        (
            pipeline
            | beam.io.ReadFromParquet(f"{source}/*.parquet")
            | beam.Map(lambda row: settled(Event(**row))._asdict())
            | beam.io.WriteToParquet(f"{target}/part", SCHEMA, file_name_suffix=".parquet")
        )


WAYS: dict[str, Callable[[str, str], None]] = {
    "mapInArrow by hand": by_hand,
    "ReadFromSpark, WriteToSpark": by_spark,
    "ReadFromParquet, WriteToParquet": by_beam,
}


def _pipeline() -> Any:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
    from beam_spark_executor import BeamSparkRunner

    options = PipelineOptions([f"--spark_master_url={MASTER}"])
    return beam.Pipeline(BeamSparkRunner(), options)


def cost(way: str, source: Path, folder: Path) -> tuple[float, float]:
    """Returns CPU seconds of all processes of a variant, and wall seconds; raises if its rows are wrong."""
    target = folder / "out"
    command = [sys.executable, __file__, "--way", way, str(source), str(target)]
    found = cost_of(command, {"PYSPARK_PYTHON": sys.executable})
    _compare(source, target)
    shutil.rmtree(target)
    return found


def _compare(source: Path, target: Path) -> None:
    columns = ("id", "price", "quantity", "discount", "amount")
    ids, price, quantity, discount, _ = _sorted(source, columns)
    found, *_, amount = _sorted(target, columns)
    assert np.array_equal(found, ids)
    assert np.array_equal(amount, price * quantity * (1 - discount))


def _sorted(folder: Path, columns: tuple[str, ...]) -> list[Any]:
    table = ds.dataset(str(folder), format="parquet").to_table(list(columns))
    order = np.argsort(table["id"].to_numpy())
    return [table[name].to_numpy()[order] for name in columns]


def main() -> None:
    """Writes a table of the variants, or runs one variant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--way", choices=list(WAYS), help=argparse.SUPPRESS)
    parser.add_argument("paths", nargs="*", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        WAYS[arguments.way](*arguments.paths)
        return
    costs: dict[tuple[str, int], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="beam-tables-") as name:
        folder = Path(name)
        for rows in (FEW, arguments.rows):
            make(folder / str(rows), rows)
        for _ in range(arguments.rounds):
            for rows in (FEW, arguments.rows):
                for way in WAYS:
                    costs.setdefault((way, rows), []).append(cost(way, folder / str(rows), folder))
                    print(way, rows, costs[way, rows][-1], os.getloadavg(), file=sys.stderr)
    print("| way | CPU s | of which to start | rows alone / by hand | wall s |")
    print("|---|---|---|---|---|")
    best = {key: min(found) for key, found in costs.items()}
    alone = {way: best[way, arguments.rows][0] - best[way, FEW][0] for way in WAYS}
    for way in WAYS:
        used, wall = best[way, arguments.rows]
        ratio = alone[way] / alone["mapInArrow by hand"]
        print(f"| {way} | {used:.1f} | {best[way, FEW][0]:.1f} | {ratio:.2f} | {wall:.0f} |")


if __name__ == "__main__":
    main()
