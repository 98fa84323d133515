"""`ReadStreamFromSpark`: rows of whatever Spark can read as a stream, as they come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import apache_beam as beam
import attrs
from apache_beam import pvalue
from apache_beam.transforms.ptransform import PTransform
from apache_beam.typehints.native_type_compatibility import match_is_named_tuple
from beam_runner_planner.table_specs import StreamSource, WrongTable

from beam_spark_io import primitives
from beam_spark_io.declared import asked, columns_of, picked
from beam_spark_io.rows import RowsAtTimes, RowsOfBatches
from beam_spark_io.schemas import row_type, spark_of_arrow
from beam_spark_io.spark.frames import stream_of


class ReadStreamFromSpark(PTransform):
    """Reads rows by the sources of Spark's Structured Streaming, without end: files that are added to a folder, Kafka.

        ReadStreamFromSpark("json", path="events", schema=Event, timestamp="at", max_lateness=60)
        kafka = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "events"}
        ReadStreamFromSpark("kafka", options=kafka, timestamp="timestamp")

    Only `BeamSparkRunner` and its server carry it out. It is read in turns, each by a query of one batch: what it
    has read and where the next one goes on are committed together, so that each row is there once, whatever is tried again
    and whoever is killed. For that a source must give the same rows again; Spark's own but ``socket`` do, as long as
    nobody removes what was not read yet. A drain ends it after the turn that it is at.

    Args:
        format: of Spark's sources of streams: parquet, orc, csv, json, text, avro, kafka, rate, ...
        path: of the folder, for formats that have files. One is read once it is there by its whole name; so
            write it elsewhere, and move it.
        options: for Spark's reader. ``maxFilesPerTrigger`` (1,000, unless they say otherwise) and
            ``maxOffsetsPerTrigger`` (a million rows) bound a turn.
        columns: those wanted, in this order.
        where: a condition in Spark's SQL, on any columns.
        schema: the columns of the source, as `ReadFromSpark` takes them. Files need it.
        timestamp: the column of event times, of Spark's type timestamp, and without nulls. Without it rows have the
            time at which their turn begins.
        max_lateness: seconds by which rows may come later than the latest one before them; the watermark is so far behind that
            one. What comes later still is late. It stays where it is while nothing comes.
        poll_seconds: how long to wait for more, once all was read.

    Raises:
        ValueError: what is said makes no sense, or a type can't be in rows.
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
        declared = None if schema is None else columns_of(schema)
        if declared is not None and timestamp and timestamp not in declared.names:
            raise WrongTable(f"there is no column {timestamp!r} of times in schema")
        source = StreamSource(
            format,
            path=path,
            options=options or {},
            columns=columns,
            where=where,
            schema="" if declared is None else spark_of_arrow(declared),
            timestamp=timestamp,
            max_lateness=round(1000 * max_lateness),
            poll=round(1000 * poll_seconds),
        )
        if declared is None:
            declared = asked(lambda session: stream_of(session, source))
            if declared is not None:
                source = attrs.evolve(source, schema=spark_of_arrow(declared))
        self._source = source
        self._make = schema if match_is_named_tuple(schema) and not columns else None
        self._type = self._make
        if self._make is None and declared is not None:
            self._type = row_type(picked(declared, columns))

    def expand(self, pbegin: pvalue.PBegin) -> pvalue.PCollection:
        """One element a row."""
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
        """Its name in a pipeline."""
        return f"ReadStreamFromSpark({self._source.name})"
