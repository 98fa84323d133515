"""Conversion of a DataFrame's rows to elements of a stage. Each Spark task writes its rows to files
in the format of a bundle's output.

Spark can run a task several times. Only the files that the collected results refer to are used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa
import pyarrow.compute
from beam_runner_data.fetching.file_cache import FileCache
from beam_runner_data.rows.columns import encode_batch
from beam_runner_engine.scheduler.events import BundleDone, Output
from beam_runner_model.buffers import BufferPlan
from beam_runner_model.times import MIN_TIMESTAMP, clamp_timestamp
from beam_runner_runtime.bundles.table_rows import ElementsWriter
from beam_runner_runtime.channel.messages import BundleReply, RunBundle
from beam_runner_runtime.channel.wire import decode_message, encode_message
from beam_runner_storage.stores.spec import StoreSpec
from pyspark import TaskContext

from beam_spark_executor.spark.pool import WorkerPools, WorkerSlot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SHARE = "reply BINARY, latest BIGINT, untimed BIGINT"


@attrs.frozen
class TableData:
    """Settings by which a Spark task writes and reads files of a job.

    Attributes:
        store: the store of the job's files.
        pieces: the maximum number of chunks in the output of a task.
        folder: the job's folder on the server's machine.
    """

    job_id: str
    store: StoreSpec
    pieces: int
    folder: str


@attrs.frozen
class RowTimes:
    """The event times of rows: from a column, or one timestamp (ms) for all rows.

    Attributes:
        column: the name of the column; empty if there is none.
        time: the timestamp of all rows without a column.
    """

    column: str = ""
    time: int = MIN_TIMESTAMP


@attrs.frozen
class WrittenElements:
    """Result of writing the rows of a DataFrame as elements.

    Attributes:
        latest: the latest event time (ms) of a row; None without rows.
        untimed: the number of rows without an event time.
    """

    outputs: tuple[Output, ...] = ()
    latest: int | None = None
    untimed: int = 0


def write_rows(
    frame: DataFrame,
    pools: WorkerPools,
    slot: WorkerSlot,
    order: RunBundle,
    data: TableData,
    buffers: Sequence[BufferPlan],
    times: RowTimes | None = None,
) -> WrittenElements:
    """Writes the rows of a DataFrame with Spark tasks, in the calling thread's job group.

    Args:
        order: the bundle, whose name the files get.
        data: the location of the job's files.
        buffers: the buffers that the stage writes to, all of them stored.
    """
    write = partial(_write_part, order, data, tuple(buffers), times or RowTimes())
    shares = pools.map_in_arrow(frame, write, _SHARE, slot).collect()
    outputs: list[Output] = []
    for encoded, _, _ in shares:
        reply = decode_message(bytes(encoded))
        assert isinstance(reply, BundleReply)
        outputs += reply.done.outputs
    latest = max((time for _, time, _ in shares if time is not None), default=None)
    return WrittenElements(tuple(outputs), latest, sum(untimed for _, _, untimed in shares))


def _write_part(
    order: RunBundle,
    data: TableData,
    buffers: Sequence[BufferPlan],
    times: RowTimes,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Writes a part of the rows inside a task, and yields the locations of the data."""
    task = TaskContext.get()
    assert task is not None
    span = _TimestampedBatches(times)
    with closing(FileCache.open(data.store)) as files:
        name = f"{order.name}-{task.partitionId()}-{task.taskAttemptId()}"
        writer = ElementsWriter(files, name, buffers, data.pieces)
        outputs = writer.write_timestamped_elements(span.convert_batches(batches))
    done = BundleDone(order.bundle.number, order.bundle.attempt, outputs)
    reply = encode_message(BundleReply(done, None, ()))
    yield pa.RecordBatch.from_pydict(
        {
            "reply": [reply],
            "latest": pa.array([span.latest], pa.int64()),
            "untimed": pa.array([span.untimed], pa.int64()),
        }
    )


class _TimestampedBatches:
    """Iterator over batches of rows, which adds the earliest event time of each batch, and records
    the latest event time of all.
    """

    def __init__(self, times: RowTimes) -> None:
        self._times = times
        self.latest: int | None = None
        self.untimed = 0

    def convert_batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
        for batch in batches:
            if batch.num_rows:
                yield self._find_earliest_time(batch), encode_batch(batch)

    def _find_earliest_time(self, batch: pa.RecordBatch) -> int:
        earliest = latest = self._times.time
        if self._times.column:
            column = batch.column(self._times.column)
            self.untimed += column.null_count
            if column.null_count == len(column):
                return earliest
            found = pa.compute.min_max(column.cast(pa.timestamp("us", column.type.tz)))
            micros = [found[end].cast(pa.int64()).as_py() for end in ("min", "max")]
            earliest, latest = (clamp_timestamp(each // 1000) for each in micros)
        self.latest = latest if self.latest is None else max(latest, self.latest)
        return earliest
