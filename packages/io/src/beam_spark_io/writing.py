"""`WriteToSpark`: rows to whatever Spark can write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import apache_beam as beam
import attrs
import pyarrow as pa
from apache_beam import pvalue
from apache_beam.transforms.ptransform import PTransform
from apache_beam.transforms.window import GlobalWindows
from beam_runner_data.rows.columns import to_bytes
from beam_runner_planner.table_specs import TableTarget, WrongTable

from beam_spark_io import primitives
from beam_spark_io.rows import BatchesOfRows
from beam_spark_io.schemas import arrow_schema, spark_of_arrow


class WriteToSpark(PTransform):
    """Writes bounded rows to files, or to a table of Spark's catalog or of a database, by Spark's own writers.

        rows | WriteToSpark("parquet", "out", partition_by=["day"])
        rows | WriteToSpark("csv", "hdfs://host/out", mode="overwrite", options={"header": True})
        rows | WriteToSpark(table="sales.events", mode="append")
        rows | WriteToSpark("jdbc", mode="append", options={"url": url, "dbtable": "events"})

    Only `BeamSparkRunner` and its server carry it out. Each row is there once, whatever is tried
    again and whoever is killed, and none is before all are written: files wait in a folder beside the
    table's, of which Spark takes no notice, and are moved when the job has on record that they are
    complete; rows of a database wait in a table beside, and are copied in one transaction. A job that
    fails before that leaves the folder or the table beside. It gives one element, what was written
    where, then.

    Args:
        format: of Spark's writers: parquet, orc, csv, json, avro, text or jdbc. A table of the catalog knows its own, and is
            made as parquet.
        path: of a folder, as Spark takes it; none for a table.
        table: of Spark's catalog, if it is files in a folder. It is made where it is missing.
        mode: what is done where there are files, or is a table: error, ignore (nothing is written),
            append or overwrite, which keeps what has been said of a table, but none of its rows.
        options: for Spark's writer. A database needs ``url`` and ``dbtable``, a plain name.
        partition_by: columns by whose values files are dealt into folders.
        schema: the columns: a NamedTuple, a ``pyarrow.Schema``, or a ``StructType`` of Spark. Without
            it they are those of the elements' type. Rows have fields of these names.

    Raises:
        ValueError: what is said makes no sense, a type can't be written, or nobody tells the columns.
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
        """What was written, once it is."""
        if not rows.is_bounded:
            raise WrongTable(f"{self.label} writes bounded rows, and these never end")
        columns = arrow_schema(rows.element_type if self._schema is None else self._schema)
        if columns is None:
            raise WrongTable(
                f"{self.label} does not know the columns: elements of type {rows.element_type} tell none."
                " Say schema=, or with_output_types() of a NamedTuple in the transform before"
            )
        for name in self._target.partition_by:
            if name not in columns.names:
                raise WrongTable(f"{self.label} is to deal rows by {name!r}, which is no column")
        target = attrs.evolve(self._target, schema=spark_of_arrow(columns))
        if not rows.windowing.is_default():
            rows = rows | "Global" >> beam.WindowInto(GlobalWindows())
        batches = rows | "Batches" >> beam.ParDo(BatchesOfRows(columns)).with_output_types(bytes)
        # No rows are to be written, too.
        empty = to_bytes(pa.RecordBatch.from_pylist([], columns))
        none = (
            rows.pipeline
            | "Begin" >> beam.Impulse()
            | "None" >> beam.Map(lambda _: empty).with_output_types(bytes)
        )
        return (
            (batches, none)
            | "All" >> beam.Flatten()
            | "Stage" >> primitives.stage(target)
            | "Publish" >> primitives.publish(target)
            | "Name" >> beam.Map(bytes.decode).with_output_types(str)
        )

    def default_label(self) -> str:
        """Its name in a pipeline."""
        return f"WriteToSpark({self._target.name})"
