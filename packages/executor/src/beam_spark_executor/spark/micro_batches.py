"""Micro-batches of Spark streams. Each micro-batch is a bundle that reads rows from a position, and
commits the rows together with the next position.

A micro-batch is one batch of a Structured Streaming query. Each attempt at the bundle creates the
query's checkpoint folder from the committed position. If the attempt fails, the next attempt starts
from the same position, so each row is committed once.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from beam_runner_data.fetching.file_cache import FileCache
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import BundleDone, Residual
from beam_runner_model.buffers import BufferKind, BufferPlan
from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP
from beam_runner_planner.table_specs import InvalidTableSpec, StreamSource
from beam_runner_runtime.bundles.table_rows import ElementsWriter, read_elements_of_inputs
from beam_runner_runtime.channel.messages import RunBundle
from beam_spark_io.spark.frames import read_stream_frame
from beam_spark_io.spark.kafka import explain_kafka_failures
from beam_spark_io.spark.stream_position import StreamPosition

from beam_spark_executor.spark.pool import WorkerPools, WorkerSlot
from beam_spark_executor.spark.reading import RowTimes, TableData, WrittenElements, write_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_POSITIONS = BufferPlan("positions", BufferKind.STORED)
_LOOK_SECONDS = 0.05


@attrs.define(eq=False)
class MicroBatchReader:
    """Reader of the micro-batches of one job's streams.

    Args:
        session: the Spark session with the sources.
        data: the location of the job's files.
        go_on: function that raises an error if the job has ended.
    """

    _session: SparkSession
    _pools: WorkerPools
    _slot: WorkerSlot
    _data: TableData
    _go_on: Callable[[], None]

    def read_batch(
        self, order: RunBundle, source: StreamSource, buffers: Sequence[BufferPlan], title: str
    ) -> BundleDone:
        """Reads the next micro-batch of a Spark stream into files, if the source has new rows.

        The bundle's residual contains the next position, and the latest timestamp so far as the
        state of the watermark estimator. A bundle that truncates the stream (for a drain) has no
        residual.

        Args:
            order: a bundle whose only input is a position, or the empty element.
            title: the name on Spark's pages.

        Raises:
            InvalidTableSpec: the source can't be read as a stream.
            Exception: the job ends, or Spark raised an error.
        """
        number, attempt = order.bundle.number, order.bundle.attempt
        (before,) = order.bundle.inputs
        self._go_on()
        if before.truncate:
            return BundleDone(number, attempt)
        # Rows without a timestamp get the start time of their micro-batch.
        times = RowTimes(source.timestamp, order.bundle.processing_time)

        def write_batch(frame: DataFrame) -> WrittenElements:
            # The function runs on a thread of the query, whose Spark jobs must belong to the Beam job.
            self._pools.set_spark_job_group(self._slot, f"beam-{self._data.job_id}", title)
            return write_rows(frame, self._pools, self._slot, order, self._data, buffers, times)

        with closing(FileCache.open(self._data.store)) as files:
            (element,) = read_elements_of_inputs(files, order.bundle.inputs)
            position = StreamPosition.from_bytes(element)
            with explain_kafka_failures(source, is_first_read=not position.files):
                turn = self._run_query(order, source, position, write_batch)
            written = turn.written
            if written.untimed:
                raise InvalidTableSpec(
                    f"{written.untimed} rows of {source.name} have no timestamp,"
                    f" because their column {source.timestamp!r} is null: exclude these"
                    " rows by where="
                )
            data = before.data
            if turn.position != position:
                writer = ElementsWriter(files, f"{order.name}-position", [_POSITIONS], 1)
                data = writer.write((turn.position.to_bytes(),))[0].data
        latest = max(
            (time for time in (before.estimator_state, written.latest) if time is not None),
            default=None,
        )
        residual = _make_next_residual(data, source, times, latest, 0 if turn.more else source.poll)
        return BundleDone(number, attempt, written.outputs, (residual,))

    def _run_query(
        self,
        order: RunBundle,
        source: StreamSource,
        position: StreamPosition,
        write: Callable[[DataFrame], WrittenElements],
    ) -> _FirstBatchWriter:
        # Put the checkpoint into the job's folder, which is removed with the job even if the server is killed.
        folder = Path(self._data.folder).absolute() / f"{order.name}-checkpoint"
        turn = _FirstBatchWriter(folder, write)
        frame = read_stream_frame(self._session, source)
        writer = frame.writeStream.foreachBatch(turn).trigger(availableNow=True)
        try:
            position.write_checkpoint(folder)
            query = writer.option("checkpointLocation", folder.as_uri()).start()
            try:
                while not query.awaitTermination(_LOOK_SECONDS) and not turn.more:
                    self._go_on()
            except Exception as error:
                if turn.error is None:
                    raise
                # Raise the error of the first batch, because the query's error contains only the
                # Java code that reports it.
                raise turn.error from error
            finally:
                query.stop()
            self._go_on()
            if not turn.more:
                turn.position = StreamPosition.read_checkpoint(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return turn


class _FirstBatchWriter:
    """Function that a streaming query calls for each batch, on a separate thread. It writes only
    the first batch, and then ends the query.

    Spark makes the second call after it has finished the first batch and recorded the offsets of
    the second. At that time, the checkpoint is the next position: a query that starts from it reads
    exactly the second batch.

    Attributes:
        position: the position of the next micro-batch.
        more: whether a second batch exists.
        error: the error for which the first batch wasn't written; None without an error.
    """

    def __init__(self, folder: Path, write: Callable[[DataFrame], WrittenElements]) -> None:
        self._folder = folder
        self._write = write
        self._batches = 0
        self.written = WrittenElements()
        self.position = StreamPosition()
        self.more = False
        self.error: Exception | None = None

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Writes the first batch, and records the next position when the query delivers the second batch."""
        self._batches += 1
        if self._batches == 1:
            try:
                self.written = self._write(frame)
            except Exception as error:
                self.error = error
                raise
        elif not self.more:
            self.position = StreamPosition.read_checkpoint(self._folder)
            self.more = True


def _make_next_residual(
    data: Data, source: StreamSource, times: RowTimes, latest: int | None, delay: int
) -> Residual:
    if not source.timestamp:
        watermark: int | None = times.time
    elif latest is None:
        watermark = None
    else:
        # Stay below the maximum timestamp, because a watermark at the maximum means that the stream
        # has ended.
        watermark = min(max(latest - source.max_lateness, MIN_TIMESTAMP), MAX_TIMESTAMP - 1)
    return Residual(data, delay, watermark, estimator_state=latest)
