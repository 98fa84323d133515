"""`ReadFromSpark`, which reads rows from any batch source of Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import apache_beam as beam
import attrs
import pyarrow as pa
from apache_beam import pvalue
from apache_beam.transforms.ptransform import PTransform
from apache_beam.typehints.native_type_compatibility import match_is_named_tuple
from beam_runner_planner.table_specs import TableSource

from beam_spark_io import primitives
from beam_spark_io.batches import decode_nonempty_batch
from beam_spark_io.declared import list_dataframe_columns, list_declared_columns, select_columns
from beam_spark_io.rows import RowsOfBatches
from beam_spark_io.schemas import convert_arrow_to_spark, make_row_type
from beam_spark_io.spark.frames import read_frame


class ReadFromSpark(PTransform):
    """Reads rows with Spark's own readers: files, databases, tables of Spark's catalog, and queries.

        ReadFromSpark("parquet", path="events", columns=["id", "at"], where="id > 100")
        ReadFromSpark("jdbc", options={"url": url, "dbtable": "events"}, schema=Event)
        ReadFromSpark(sql="SELECT id, count(*) AS n FROM events GROUP BY id")
        ReadFromSpark("parquet", path="events", schema=Event, batches=True)

    Only `BeamSparkRunner` and its server execute this transform. If ``schema`` is a NamedTuple and
    no columns are selected, elements are of that NamedTuple, otherwise ``beam.Row``.
    `beam_spark_io.schemas` lists the types of their values. The transform reads the source once,
    and emits each row once, in Spark's order.

    Args:
        format: a format of Spark's readers: parquet, orc, csv, json, jdbc, ...
        table: a table or view of Spark's catalog.
        sql: a query. Give exactly one of `format`, `table` and `sql`.
        path: the path of the files, in a form that Spark accepts.
        options: options for Spark's reader.
        columns: the selected columns in order; expressions are not supported.
        where: a condition in Spark's SQL, on any columns. Spark pushes the selection and the
            condition down to the source if it can.
        schema: the columns of the source: a NamedTuple, a ``pyarrow.Schema``, or a ``StructType``
            of Spark. For csv, which has no schema, give all columns, otherwise the selected ones.
            Without `schema`, the Spark session of this process supplies the columns. Without a
            session, rows have no schema until they are read.
        batches: whether elements are ``pyarrow.RecordBatch`` with many rows each, and not rows. No
            batch is empty.

    Raises:
        ValueError: the arguments are invalid, or rows don't support a type.
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
        batches: bool = False,
    ) -> None:
        super().__init__()
        self._has_batches = batches
        source = TableSource(format, table, sql, path, options or {}, columns, where)
        named = schema if match_is_named_tuple(schema) and not columns else None
        declared = (
            list_dataframe_columns(lambda session: read_frame(session, source))
            if schema is None
            else list_declared_columns(schema)
        )
        self._make = named
        self._type = named or (
            None if declared is None else make_row_type(select_columns(declared, columns))
        )
        self._source = source
        if declared is not None:
            self._source = attrs.evolve(source, schema=convert_arrow_to_spark(declared))

    def expand(self, pbegin: pvalue.PBegin) -> pvalue.PCollection:
        """Returns a PCollection with one element for each row, or of batches."""
        encoded = (
            pbegin | "Begin" >> beam.Impulse() | "Spark" >> primitives.read_table(self._source)
        )
        if self._has_batches:
            decode = beam.FlatMap(decode_nonempty_batch).with_output_types(pa.RecordBatch)
            return encoded | "Decode" >> decode
        of_batches = beam.ParDo(RowsOfBatches(self._make))
        if self._type is not None:
            of_batches = of_batches.with_output_types(self._type)
        return encoded | "Rows" >> of_batches

    def default_label(self) -> str:
        """Returns the transform's name in a pipeline."""
        return f"ReadFromSpark({self._source.name})"
