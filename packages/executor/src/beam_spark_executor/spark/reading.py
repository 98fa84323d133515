"""Rows of a DataFrame become elements of a stage: each Spark task writes its share of them, as a bundle on a lane does.

Spark runs tasks again as it likes. What counts is what the attempts have written that Spark collects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa
import pyarrow.compute
from beam_runner_data.rows.columns import to_bytes
from beam_runner_engine.scheduler.events import BundleDone, Output
from beam_runner_model.buffers import BufferPlan
from beam_runner_model.times import MIN_TIMESTAMP, clamp
from beam_runner_runtime.bundles.job_files import files_of
from beam_runner_runtime.bundles.table_rows import ElementsWriter
from beam_runner_runtime.channel.messages import BundleReply, RunBundle
from beam_runner_runtime.channel.wire import decode_message, encode_message
from beam_runner_storage.stores.spec import StoreSpec
from pyspark import TaskContext

from beam_spark_executor.spark.pool import Slot, WorkerPools

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SHARE = "reply BINARY, latest BIGINT, untimed BIGINT"


@attrs.frozen
class TableData:
    """What a Spark task must know to write and read elements of a job (`Whereabouts`).

    Attributes:
        job_id: the job's.
        folder: the job's, where machines share one.
        store: where the job's files lie if machines share no folder.
        durable: whether files must be on the disk before a reply names them.
        pieces: into how many pieces what a task writes may be cut.
    """

    job_id: str
    folder: str
    store: StoreSpec | None
    durable: bool
    pieces: int


@attrs.frozen
class RowTimes:
    """Which event times rows have: those of a column, or one (ms) for all.

    Attributes:
        column: its name; empty if there is none.
        time: of all, then.
    """

    column: str = ""
    time: int = MIN_TIMESTAMP


@attrs.frozen
class Written:
    """What was written of a DataFrame.

    Attributes:
        outputs: of the stage.
        latest: the latest event time (ms) of a row; None if there are no rows.
        untimed: how many rows have no event time.
    """

    outputs: tuple[Output, ...] = ()
    latest: int | None = None
    untimed: int = 0


def write_rows(
    frame: DataFrame,
    pools: WorkerPools,
    slot: Slot,
    order: RunBundle,
    data: TableData,
    buffers: Sequence[BufferPlan],
    times: RowTimes | None = None,
) -> Written:
    """Has the rows of a DataFrame written by Spark's tasks, in the calling thread's job group.

    Args:
        frame: whose rows are meant.
        pools: of Python workers.
        slot: the job's.
        order: what files are named after.
        data: where the job's files are.
        buffers: what the stage writes to, all of them stored.
        times: of the rows.
    """
    write = partial(_write, order, data, tuple(buffers), times or RowTimes())
    shares = pools.map_in_arrow(frame, write, _SHARE, slot).collect()
    outputs: list[Output] = []
    for encoded, _, _ in shares:
        reply = decode_message(bytes(encoded))
        assert isinstance(reply, BundleReply)
        outputs += reply.done.outputs
    latest = max((time for _, time, _ in shares if time is not None), default=None)
    return Written(tuple(outputs), latest, sum(untimed for _, _, untimed in shares))


def _write(
    order: RunBundle,
    data: TableData,
    buffers: Sequence[BufferPlan],
    times: RowTimes,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """In a task: writes a share of the rows, and tells where."""
    task = TaskContext.get()
    assert task is not None
    files = files_of(data)
    span = _Span(times)
    try:
        name = f"{order.name}-{task.partitionId()}-{task.taskAttemptId()}"
        writer = ElementsWriter(files, name, buffers, data.pieces)
        outputs = writer.write_at(span.of(batches))
    finally:
        files.remove()
    done = BundleDone(order.bundle.number, order.bundle.attempt, outputs)
    reply = encode_message(BundleReply(done, None, ()))
    yield pa.RecordBatch.from_pydict(
        {
            "reply": [reply],
            "latest": pa.array([span.latest], pa.int64()),
            "untimed": pa.array([span.untimed], pa.int64()),
        }
    )


class _Span:
    """Gives batches the earliest time of their rows, and remembers the latest of all."""

    def __init__(self, times: RowTimes) -> None:
        self._times = times
        self.latest: int | None = None
        self.untimed = 0

    def of(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
        for batch in batches:
            if batch.num_rows:
                yield self._earliest(batch), to_bytes(batch)

    def _earliest(self, batch: pa.RecordBatch) -> int:
        earliest = latest = self._times.time
        if self._times.column:
            column = batch.column(self._times.column)
            self.untimed += column.null_count
            if column.null_count == len(column):
                return earliest
            found = pa.compute.min_max(column.cast(pa.timestamp("us", column.type.tz)))
            micros = [found[end].cast(pa.int64()).as_py() for end in ("min", "max")]
            earliest, latest = (clamp(each // 1000) for each in micros)
        self.latest = latest if self.latest is None else max(latest, self.latest)
        return earliest
