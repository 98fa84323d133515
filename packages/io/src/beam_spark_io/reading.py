"""`ReadFromSpark`: rows of whatever Spark can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import apache_beam as beam
import attrs
from apache_beam import pvalue
from apache_beam.transforms.ptransform import PTransform
from apache_beam.typehints.native_type_compatibility import match_is_named_tuple
from beam_runner_planner.table_specs import TableSource

from beam_spark_io import primitives
from beam_spark_io.declared import asked, columns_of, picked
from beam_spark_io.rows import RowsOfBatches
from beam_spark_io.schemas import row_type, spark_of_arrow
from beam_spark_io.spark.frames import frame_of


class ReadFromSpark(PTransform):
    """Reads rows by Spark's own readers: files, databases, tables of its catalog, queries.

        ReadFromSpark("parquet", path="events", columns=["id", "at"], where="id > 100")
        ReadFromSpark("jdbc", options={"url": url, "dbtable": "events"}, schema=Event)
        ReadFromSpark(sql="SELECT id, count(*) AS n FROM events GROUP BY id")

    Only `BeamSparkRunner` and its server carry it out. Rows are of the NamedTuple that ``schema`` is
    where no columns are picked, else ``beam.Row``; `beam_spark_io.schemas` has the types of their values. All of it is
    read once, and each row is there once. The order of rows is Spark's.

    Args:
        format: of Spark's readers: parquet, orc, csv, json, jdbc, ...
        table: a table or view of Spark's catalog.
        sql: a query. One of these three is given.
        path: for formats that have files, as Spark takes it.
        options: for Spark's reader.
        columns: those wanted, in this order; expressions are not columns.
        where: a condition in Spark's SQL, on any columns. Both are handed down to the source where
            Spark can do that.
        schema: the columns of the source: a NamedTuple, a ``pyarrow.Schema``, or a ``StructType`` of
            Spark. All of them for csv, which does not tell them; else those that are wanted. Without
            it they are asked of the Spark session of this process; if there is none, rows have no
            schema until they are read.

    Raises:
        ValueError: what is said makes no sense, or a type can't be in rows.
    """

    def __init__(
        self,
        format: str = "",
        *,
        table: str = "",
        sql: str = "",
        path: str = "",
        options: Mapping[str, Any] | None = None,
        columns: Sequence[str] = (),
        where: str = "",
        schema: Any = None,
    ) -> None:
        super().__init__()
        source = TableSource(format, table, sql, path, options or {}, columns, where)
        named = schema if match_is_named_tuple(schema) and not columns else None
        declared = (
            asked(lambda session: frame_of(session, source))
            if schema is None
            else columns_of(schema)
        )
        self._make = named
        self._type = named or (None if declared is None else row_type(picked(declared, columns)))
        self._source = source
        if declared is not None:
            self._source = attrs.evolve(source, schema=spark_of_arrow(declared))

    def expand(self, pbegin: pvalue.PBegin) -> pvalue.PCollection:
        """One element a row."""
        of_batches = beam.ParDo(RowsOfBatches(self._make))
        if self._type is not None:
            of_batches = of_batches.with_output_types(self._type)
        return (
            pbegin
            | "Begin" >> beam.Impulse()
            | "Spark" >> primitives.read(self._source)
            | "Rows" >> of_batches
        )

    def default_label(self) -> str:
        """Its name in a pipeline."""
        return f"ReadFromSpark({self._source.name})"
