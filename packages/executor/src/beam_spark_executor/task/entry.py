"""The functions that Spark calls in its Python workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs
import pyarrow as pa
from beam_runner_worker.errors import BundleFailed
from beam_runner_worker.records import ElementChunk, InputChunk, MonitoringInfo
from greenlet import getcurrent, greenlet
from pyspark import TaskContext

from beam_spark_executor.channel.messages import (
    Endpoint,
    StageWork,
    TaskBroke,
    TaskName,
    UserCodeFailed,
)
from beam_spark_executor.plan import BufferKind
from beam_spark_executor.task.columns import from_bytes
from beam_spark_executor.task.files import RowFileWriter, read_pieces
from beam_spark_executor.task.grouping import group_chunks
from beam_spark_executor.task.outputs import RowPort, RowSink, row_port
from beam_spark_executor.task.process import WorkerProcess, bind
from beam_spark_executor.task.rows import (
    Row,
    RowKind,
    StoredFile,
    TaskFailure,
    TaskReply,
    read_elements,
    read_reply,
    read_rows,
)


@attrs.frozen
class SectionRef:
    """An attempt at a section of a job, and where to ask for it."""

    endpoint: Endpoint
    job_id: str
    section: str


def run_stage(
    ref: SectionRef, stage_id: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Runs one bundle of a stage over the rows of one partition; gives its rows and its reply.

    An exception of user code becomes a reply, not a failed task: Spark must not try it again.
    Anything else fails the task, and Spark tries it elsewhere.
    """
    process = bind(ref.endpoint, ref.job_id)
    context = TaskContext.get()
    assert context is not None
    task = TaskName(ref.section, stage_id, context.partitionId(), context.taskAttemptId())
    bundle = _Bundle(process, process.work(ref.section, stage_id), task, batches)
    for row in bundle.rows():
        yield row.to_batch()


def read_files(
    ref: SectionRef, source: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Gives the rows of committed files, as one of several inputs of a shuffle."""
    process = bind(ref.endpoint, ref.job_id)
    pieces = process.channel.pieces(ref.section, source)
    for number in _task_numbers(batches):
        for shard, kind, data in read_pieces(pieces[number]):
            yield Row(shard, kind, data.to_pybytes()).to_batch()


class _Bundle:
    """One task: its input chunks, its output ports, and what its rows are made of.

    A harness pushes rows, Spark pulls them. A greenlet turns one into the other within one thread:
    a port that writes a row goes on when Spark asks for the next one. Two threads would fight for
    the interpreter's lock, which cost a third of the time.
    """

    def __init__(
        self,
        process: WorkerProcess,
        work: StageWork,
        task: TaskName,
        batches: Iterator[pa.RecordBatch],
    ) -> None:
        self._process = process
        self._work = work
        self._task = task
        self._batches = batches
        self._passed_on: list[TaskReply] = []
        self._writers: list[RowFileWriter] = []

    def rows(self) -> Iterator[Row]:
        """The rows as they are made, the replies last.

        Raises:
            Exception: whatever failed outside user code.
        """
        processing = greenlet(self._process_bundle)
        try:
            produced = processing.switch()
            while not processing.dead:
                yield produced
                produced = processing.switch()
        except Exception as error:
            self._process.channel.send(TaskBroke(self._task, f"{type(error).__name__}: {error}"))
            raise
        shard = self._task.partition % self._work.shards
        for said in (*self._passed_on, produced):
            yield said.to_row(shard)

    def _process_bundle(self) -> TaskReply:
        stage_id = self._task.stage_id
        chunks = self._input_chunks()
        first = next(chunks, None)
        if first is None:
            return TaskReply(stage_id)
        try:
            metrics = self._process_chunks(_chain(first, chunks))
        except BundleFailed as error:
            for writer in self._writers:
                writer.discard()
            failure = TaskFailure(error.transform, error.summary, error.trace)
            self._process.channel.send(UserCodeFailed(self._task, failure))
            _drain(chunks)
            return TaskReply(stage_id, failure=failure)
        return TaskReply(stage_id, metrics, self._close_files())

    def _process_chunks(self, chunks: Iterable[InputChunk]) -> tuple[MonitoringInfo, ...]:
        stage = self._process.stage(self._work)
        with self._process.running(self._task, stage):
            task = self._task
            bundle_id = f"{task.section}/{task.stage_id}/{task.partition}/{task.attempt}"
            metrics = stage.process_bundle(bundle_id, chunks, self._ports()).metrics
        recounted = ("PCOLLECTION", self._work.stage.counted_elsewhere)
        return tuple(metric for metric in metrics if recounted not in metric.labels)

    def _input_chunks(self) -> Iterator[InputChunk]:
        work = self._work
        if work.input_kind is None:
            _drain(self._batches)
            yield ElementChunk(1, work.stage.impulse)
        elif work.input_kind is BufferKind.STORED:
            for number in _task_numbers(self._batches):
                for _, _, data in read_pieces(work.pieces[number]):
                    yield read_elements(data)
        elif work.input_kind is BufferKind.DEALT:
            for data in self._data_rows():
                yield read_elements(data)
        else:
            assert work.strategy is not None
            keyed = [from_bytes(data) for data in self._data_rows()]
            yield from group_chunks(keyed, work.strategy)

    def _data_rows(self) -> Iterator[pa.Buffer]:
        """The rows with data; replies of the tasks before are kept, to be passed on."""
        for kind, data in read_rows(self._batches):
            if kind is RowKind.REPLY:
                self._passed_on.append(read_reply(data))
            else:
                yield data

    def _ports(self) -> dict[str, RowPort]:
        return {
            transform_id: row_port(
                kind, self._work.shards, self._task.partition, self._sink(transform_id)
            )
            for transform_id, kind in self._work.output_kinds.items()
        }

    def _sink(self, transform_id: str) -> RowSink:
        if self._work.streams_output:
            return _hand_over
        task = self._task
        writer = RowFileWriter(
            Path(self._work.folder) / task.section.replace("/", "-"),
            f"{transform_id.replace('/', '-')}-{task.partition}-{task.attempt}.arrow",
            self._work.stage.outputs[transform_id],
        )
        self._writers.append(writer)
        return writer.write

    def _close_files(self) -> tuple[StoredFile, ...]:
        closed = [writer.close() for writer in self._writers]
        return tuple(file for file in closed if file is not None)


def _hand_over(row: Row) -> None:
    """Gives a row to whoever runs the greenlet, and goes on when it is taken."""
    getcurrent().parent.switch(row)


def _chain(first: InputChunk, rest: Iterable[InputChunk]) -> Iterator[InputChunk]:
    yield first
    yield from rest


def _task_numbers(batches: Iterator[pa.RecordBatch]) -> list[int]:
    """The numbers in a partition of a range with as many partitions as numbers.

    Not the number of Spark's partition: that counts on through all parts of a union.
    """
    return [number for batch in batches for number in batch.column("id").to_pylist()]


def _drain(iterator: Iterator[object]) -> None:
    for _ in iterator:
        pass
