"""Streams are read in turns: each is a bundle that goes on from a position, and commits the next one with what it has read.

A turn is a query of Spark's Structured Streaming, whose checkpoint is a folder of this attempt's own, filled from the position that
was committed. It reads one batch. Whatever ends meanwhile, another attempt begins where this one did, so that each row is
committed once.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import BundleDone, Residual
from beam_runner_model.buffers import BufferKind, BufferPlan
from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP
from beam_runner_planner.table_specs import StreamSource, WrongTable
from beam_runner_runtime.bundles.job_files import files_of
from beam_runner_runtime.bundles.table_rows import ElementsWriter, elements_of
from beam_runner_runtime.channel.messages import RunBundle
from beam_spark_io.spark.frames import stream_of
from beam_spark_io.spark.kafka import explained
from beam_spark_io.spark.stream_position import Position

from beam_spark_executor.spark.pool import Slot, WorkerPools
from beam_spark_executor.spark.reading import RowTimes, TableData, Written, write_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_POSITIONS = BufferPlan("positions", BufferKind.STORED)
_LOOK_SECONDS = 0.05


@attrs.define(eq=False)
class StreamTurns:
    """Takes the turns of one job at its streams.

    Args:
        session: whose sources are meant.
        pools: of Python workers.
        slot: the job's.
        data: where the job's files are.
        go_on: raises once the job ends.
    """

    _session: SparkSession
    _pools: WorkerPools
    _slot: Slot
    _data: TableData
    _go_on: Callable[[], None]

    def take(
        self, order: RunBundle, source: StreamSource, buffers: Sequence[BufferPlan], title: str
    ) -> BundleDone:
        """Reads a batch, if there is one.

        What is left is a residual: the next position, and as the state of its watermark's estimator the latest time that was
        seen. A turn that is to truncate it leaves nothing.

        Args:
            order: a bundle whose one input is a position, or the empty element.
            source: what is read.
            buffers: what the stage writes to.
            title: what Spark's own pages call it.

        Raises:
            WrongTable: it can't be read so.
            Exception: the job ends, or whatever Spark has to say against it.
        """
        number, attempt = order.bundle.number, order.bundle.attempt
        (before,) = order.bundle.inputs
        self._go_on()
        if before.truncate:
            return BundleDone(number, attempt)
        # All rows of a turn that have no time of their own have that at which it began.
        times = RowTimes(source.timestamp, order.bundle.processing_time)

        def write(frame: DataFrame) -> Written:
            # On a thread of the query, whose Spark jobs are to be of the Beam job.
            self._pools.begin_job(self._slot, f"beam-{self._data.job_id}", title)
            return write_rows(frame, self._pools, self._slot, order, self._data, buffers, times)

        files = files_of(self._data)
        try:
            (element,) = elements_of(files, order.bundle.inputs)
            position = Position.from_bytes(element)
            with explained(source, anew=not position.files):
                turn = self._read(order, source, position, write)
            written = turn.written
            if written.untimed:
                raise WrongTable(
                    f"{written.untimed} rows of {source.name} have no time, since their column"
                    f" {source.timestamp!r} is null: leave them out by where="
                )
            data = before.data
            if turn.position != position:
                writer = ElementsWriter(files, f"{order.name}-position", [_POSITIONS], 1)
                data = writer.write((turn.position.to_bytes(),))[0].data
        finally:
            files.remove()
        latest = max(
            (time for time in (before.estimator_state, written.latest) if time is not None),
            default=None,
        )
        residual = _residual(data, source, times, latest, 0 if turn.more else source.poll)
        return BundleDone(number, attempt, written.outputs, (residual,))

    def _read(
        self,
        order: RunBundle,
        source: StreamSource,
        position: Position,
        write: Callable[[DataFrame], Written],
    ) -> _Turn:
        # In the job's folder, so that it goes with the job where the server is killed.
        folder = Path(self._data.folder).absolute() / f"{order.name}-checkpoint"
        turn = _Turn(folder, write)
        frame = stream_of(self._session, source)
        writer = frame.writeStream.foreachBatch(turn).trigger(availableNow=True)
        try:
            position.restore(folder)
            query = writer.option("checkpointLocation", folder.as_uri()).start()
            try:
                while not query.awaitTermination(_LOOK_SECONDS) and not turn.more:
                    self._go_on()
            except Exception as error:
                if turn.error is None:
                    raise
                # What the query says of it is where in Java it came to that.
                raise turn.error from error
            finally:
                query.stop()
            self._go_on()
            if not turn.more:
                turn.position = Position.of_folder(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return turn


class _Turn:
    """What a query calls with each of its batches, on a thread of its own: the first is written, and ends the turn.

    The second one comes once it is on record which rows are in it, and the first is done: then the checkpoint is
    a position, from which these very rows are read next.

    Attributes:
        written: of the first.
        position: where the next turn goes on.
        more: whether there is a second.
        error: why the first was not written.
    """

    def __init__(self, folder: Path, write: Callable[[DataFrame], Written]) -> None:
        self._folder = folder
        self._write = write
        self._batches = 0
        self.written = Written()
        self.position = Position()
        self.more = False
        self.error: Exception | None = None

    def __call__(self, frame: DataFrame, number: int) -> None:
        """Takes a batch."""
        self._batches += 1
        if self._batches == 1:
            try:
                self.written = self._write(frame)
            except Exception as error:
                self.error = error
                raise
        elif not self.more:
            self.position = Position.of_folder(self._folder)
            self.more = True


def _residual(
    data: Data, source: StreamSource, times: RowTimes, latest: int | None, delay: int
) -> Residual:
    if not source.timestamp:
        watermark: int | None = times.time
    elif latest is None:
        watermark = None
    else:
        # The end of time would say that nothing comes any more.
        watermark = min(max(latest - source.max_lateness, MIN_TIMESTAMP), MAX_TIMESTAMP - 1)
    return Residual(data, delay, watermark, estimator_state=latest)
