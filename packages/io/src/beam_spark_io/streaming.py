"""`ReadStreamFromSpark`, which reads rows from any streaming source of Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import apache_beam as beam
import attrs
from apache_beam import pvalue
from apache_beam.transforms.ptransform import PTransform
from apache_beam.typehints.native_type_compatibility import match_is_named_tuple
from beam_runner_planner.table_specs import InvalidTableSpec, StreamSource

from beam_spark_io import primitives
from beam_spark_io.declared import list_dataframe_columns, list_declared_columns, select_columns
from beam_spark_io.rows import RowsAtTimes, RowsOfBatches
from beam_spark_io.schemas import convert_arrow_to_spark, make_row_type
from beam_spark_io.spark.frames import read_stream_frame


class ReadStreamFromSpark(PTransform):
    """Reads rows without end from a source of Spark's Structured Streaming, such as a growing folder
    or Kafka.

        ReadStreamFromSpark("json", path="events", schema=Event, timestamp="at", max_lateness=60)
        kafka = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "events"}
        ReadStreamFromSpark("kafka", options=kafka, timestamp="timestamp")

    Only `BeamSparkRunner` and its server execute this transform. It reads micro-batches, each with
    one query. The runner commits the rows of a micro-batch together with the next position. So it
    emits each row exactly once, despite retries and kills. For that, a source must be able to
    return the same rows again. All of Spark's sources except ``socket`` can, as long as no process
    removes data that the stream hasn't read. A drain ends the stream after the current micro-batch.

    Args:
        format: a streaming format of Spark: parquet, orc, csv, json, text, avro, kafka, rate, ...
        path: the folder, for formats that have files. The stream reads a file as soon as its final
            name exists, so write the file under another name, and rename it.
        options: options for Spark's reader. ``maxFilesPerTrigger`` (default 1,000) and
            ``maxOffsetsPerTrigger`` (default 1,000,000 rows) limit a micro-batch.
        columns: the selected columns in order.
        where: a condition in Spark's SQL, on any columns.
        schema: the columns of the source, as in `ReadFromSpark`. Required for files.
        timestamp: the column of event times, of Spark's type timestamp and without nulls. By
            default rows get the start time of their micro-batch.
        max_lateness: how many seconds the timestamp of a row may lie behind the latest one. The
            watermark stays so far behind the latest timestamp. Rows behind the watermark are late.
            The watermark doesn't advance while no rows arrive.
        poll_seconds: the pause between the end of the available data and the next look for new
            data.

    Raises:
        ValueError: the arguments are invalid, or rows don't support a type.
    """

    def __init__(
        self,
        format: str,
        *,
        path: str = "",
        options: Mapping[str, Any] | None = None,
        columns: Sequence[str] = (),
        where: str = "",
        schema: Any = None,
        timestamp: str = "",
        max_lateness: float = 0.0,
        poll_seconds: float = 1.0,
    ) -> None:
        super().__init__()
        declared = None if schema is None else list_declared_columns(schema)
        if declared is not None and timestamp and timestamp not in declared.names:
            raise InvalidTableSpec(f"the timestamp column {timestamp!r} is missing from schema")
        source = StreamSource(
            format,
            path=path,
            options=options or {},
            columns=columns,
            where=where,
            schema="" if declared is None else convert_arrow_to_spark(declared),
            timestamp=timestamp,
            max_lateness=round(1000 * max_lateness),
            poll=round(1000 * poll_seconds),
        )
        if declared is None:
            declared = list_dataframe_columns(lambda session: read_stream_frame(session, source))
            if declared is not None:
                source = attrs.evolve(source, schema=convert_arrow_to_spark(declared))
        self._source = source
        self._make = schema if match_is_named_tuple(schema) and not columns else None
        self._type = self._make
        if self._make is None and declared is not None:
            self._type = make_row_type(select_columns(declared, columns))

    def expand(self, pbegin: pvalue.PBegin) -> pvalue.PCollection:
        """Returns a PCollection with one element for each row."""
        timestamp = self._source.timestamp
        rows = RowsAtTimes(timestamp, self._make) if timestamp else RowsOfBatches(self._make)
        of_batches = beam.ParDo(rows)
        if self._type is not None:
            of_batches = of_batches.with_output_types(self._type)
        return (
            pbegin
            | "Begin" >> beam.Impulse()
            | "Spark" >> primitives.read_stream(self._source)
            | "Rows" >> of_batches
        )

    def default_label(self) -> str:
        """Returns the transform's name in a pipeline."""
        return f"ReadStreamFromSpark({self._source.name})"
