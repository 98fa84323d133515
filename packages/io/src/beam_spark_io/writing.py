"""`WriteToSpark`, which writes rows to any target of Spark that supports exactly-once writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import apache_beam as beam
import attrs
import pyarrow as pa
from apache_beam import pvalue
from apache_beam.transforms.ptransform import PTransform
from apache_beam.transforms.window import GlobalWindows
from beam_runner_data.rows.columns import encode_batch
from beam_runner_planner.table_specs import InvalidTableSpec, TableTarget

from beam_spark_io import primitives
from beam_spark_io.rows import BatchesOfRows
from beam_spark_io.schemas import convert_arrow_to_spark, make_declared_arrow_schema


class WriteToSpark(PTransform):
    """Writes bounded rows with Spark's own writers to files, or to a table of Spark's catalog or of a
    database.

        rows | WriteToSpark("parquet", "out", partition_by=["day"])
        rows | WriteToSpark("csv", "hdfs://host/out", mode="overwrite", options={"header": True})
        rows | WriteToSpark(table="sales.events", mode="append")
        rows | WriteToSpark("jdbc", mode="append", options={"url": url, "dbtable": "events"})

    Elements are rows, or batches of rows as ``pyarrow.RecordBatch`` or ``pyarrow.Table``, which need
    a `schema`. A PCollection can contain both.

    Only `BeamSparkRunner` and its server execute this transform. It writes each row exactly once,
    despite retries and kills, and no row is visible before all rows are written. Files wait in a
    staging folder that Spark ignores. After the job has recorded that they are complete, the runner
    moves them. Rows of a database wait in a staging table, and one transaction copies them. A job
    that fails earlier leaves the staging folder or the staging table behind. The transform emits
    one element at the end, the name of the target.

    Args:
        format: a format of Spark's writers: parquet, orc, csv, json, avro, text or jdbc. An
            existing table of the catalog has its own format, and a new table is created as parquet.
        path: the folder, in a form that Spark accepts; none for a table.
        table: a table of Spark's catalog whose data is files in a folder. It is created if it
            doesn't exist.
        mode: what to do if the target contains data: error, ignore (write nothing), append, or
            overwrite, which keeps the definition of a table and replaces its rows.
        options: options for Spark's writer. A database needs ``url`` and ``dbtable``, a plain name.
        partition_by: the columns by which Spark partitions the files into folders.
        schema: the columns: a NamedTuple, a ``pyarrow.Schema``, or a ``StructType`` of Spark. By
            default, the columns of the elements' type. Rows need fields with these names.

    Raises:
        ValueError: the arguments are invalid, a type can't be written, or the columns are unknown.
    """

    def __init__(
        self,
        format: str = "",
        path: str = "",
        *,
        table: str = "",
        mode: str = "error",
        options: Mapping[str, Any] | None = None,
        partition_by: Sequence[str] = (),
        schema: Any = None,
    ) -> None:
        super().__init__()
        self._target = TableTarget(format, path, mode, options or {}, partition_by, table=table)
        self._schema = schema

    def expand(self, rows: pvalue.PCollection) -> pvalue.PCollection:
        """Returns a PCollection with one element, the target's name, which is emitted after the write is complete."""
        if not rows.is_bounded:
            raise InvalidTableSpec(
                f"{self.label} can't write an unbounded PCollection: write bounded rows"
            )
        columns = make_declared_arrow_schema(
            rows.element_type if self._schema is None else self._schema
        )
        if columns is None:
            raise InvalidTableSpec(
                f"{self.label} can't derive the columns from the element type"
                f" {rows.element_type}: set schema=, or declare a NamedTuple by"
                " with_output_types() on the transform before"
            )
        for name in self._target.partition_by:
            if name not in columns.names:
                raise InvalidTableSpec(
                    f"{self.label} can't partition by {name!r}, which isn't a column"
                )
        target = attrs.evolve(self._target, schema=convert_arrow_to_spark(columns))
        if not rows.windowing.is_default():
            rows = rows | "Global" >> beam.WindowInto(GlobalWindows())
        batches = rows | "Batches" >> beam.ParDo(BatchesOfRows(columns)).with_output_types(bytes)
        # Add an empty batch, so that a write without rows creates the target, too.
        empty = encode_batch(pa.RecordBatch.from_pylist([], columns))
        none = (
            rows.pipeline
            | "Begin" >> beam.Impulse()
            | "None" >> beam.Map(lambda _: empty).with_output_types(bytes)
        )
        return (
            (batches, none)
            | "All" >> beam.Flatten()
            | "Stage" >> primitives.stage_batches(target)
            | "Publish" >> primitives.publish_staged_files(target)
            | "Name" >> beam.Map(bytes.decode).with_output_types(str)
        )

    def default_label(self) -> str:
        """Returns the transform's name in a pipeline."""
        return f"WriteToSpark({self._target.name})"
