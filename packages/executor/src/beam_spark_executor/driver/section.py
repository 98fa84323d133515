"""One attempt at a section as one Spark job: a tree of stages joined by shuffles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from beam_spark_executor.channel.messages import StageWork
from beam_spark_executor.plan import BufferKind, JobPlan, SectionPlan, StagePlan
from beam_spark_executor.spark.pool import Slot, WorkerPools
from beam_spark_executor.task.entry import SectionRef, read_files, run_stage
from beam_spark_executor.task.files import Piece
from beam_spark_executor.task.rows import SCHEMA, RowKind, StoredFile, TaskReply, read_reply

Files = Mapping[str, Sequence[StoredFile]]
"""The committed files of each buffer."""


def deal_pieces(files: Sequence[StoredFile], tasks: int) -> tuple[tuple[Piece, ...], ...]:
    """Deals the rows of files to at most so many tasks, about the same number of bytes to each.

    Rows keep their order. At least one task, even if there is nothing to read.
    """
    total = sum(file.size for file in files)
    rows = sum(file.rows for file in files)
    tasks = max(1, min(tasks, rows))
    share = total / tasks
    dealt: list[list[Piece]] = [[]]
    given = 0.0
    for file in files:
        row_size = file.size / file.rows
        first = 0
        for row in range(file.rows):
            given += row_size
            # The last task takes what rounding leaves.
            if given >= share * len(dealt) - row_size / 2 and len(dealt) < tasks:
                dealt[-1].append(Piece(file.path, first, row + 1))
                dealt.append([])
                first = row + 1
        if first < file.rows:
            dealt[-1].append(Piece(file.path, first, file.rows))
    if not dealt[-1] and len(dealt) > 1:
        del dealt[-1]
    return tuple(tuple(pieces) for pieces in dealt)


@attrs.frozen
class SectionJob:
    """Everything that defines one attempt at a section, before Spark knows of it.

    Attributes:
        plan: the job's.
        section: what to run.
        files: what the sections before have committed.
        tasks: how many tasks read a shuffle, and at most read files.
        folder: where tasks write.
    """

    plan: JobPlan
    section: SectionPlan
    files: Files
    tasks: int
    folder: str

    def stage_work(self, stage_id: str) -> StageWork:
        """What the tasks of one of the section's stages do."""
        stage = self.plan.stages[stage_id]
        buffers = self.plan.buffers
        source = None if stage.input_buffer is None else buffers[stage.input_buffer]
        stored = source is not None and source.kind is BufferKind.STORED
        return StageWork(
            stage=stage,
            input_kind=None if source is None else source.kind,
            strategy=None if source is None else source.strategy,
            output_kinds={t: buffers[b].kind for t, b in stage.outputs.items()},
            streams_output=stage_id != self.section.section_id,
            shards=self.tasks,
            pieces=self.pieces(source.buffer_id) if source is not None and stored else (),
            side_inputs={use.buffer_id: self._whole(use.buffer_id) for use in stage.side_inputs},
            folder=self.folder,
        )

    def pieces(self, buffer_id: str) -> tuple[tuple[Piece, ...], ...]:
        """The pieces of a buffer's committed files, for each task that reads them."""
        return deal_pieces(self.files.get(buffer_id, ()), self.tasks)

    def _whole(self, buffer_id: str) -> tuple[Piece, ...]:
        return tuple(Piece(f.path, 0, f.rows) for f in self.files.get(buffer_id, ()))


class SectionFrame:
    """Builds the DataFrame of an attempt at a section."""

    def __init__(
        self,
        session: SparkSession,
        pools: WorkerPools,
        slot: Slot,
        job: SectionJob,
        ref: SectionRef,
    ) -> None:
        self._session = session
        self._pools = pools
        self._slot = slot
        self._job = job
        self._ref = ref

    def replies(self) -> list[TaskReply]:
        """Runs the Spark job and gives the replies of all its tasks. Blocks until it has ended.

        Raises:
            Exception: whatever Spark raises when the job fails or is cancelled.
        """
        table = self._stage(self._job.plan.stages[self._job.section.section_id]).toArrow()
        kinds = table.column("kind").to_pylist()
        data = table.column("data").to_pylist()
        assert all(kind == RowKind.REPLY for kind in kinds)
        return [read_reply(row) for row in data]

    def _stage(self, stage: StagePlan) -> DataFrame:
        ref, stage_id = self._ref, stage.stage_id

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return run_stage(ref, stage_id, batches)

        return self._map(self._input(stage), run)

    def _input(self, stage: StagePlan) -> DataFrame:
        if stage.input_buffer is None:
            return self._tasks(1)
        buffer = self._job.plan.buffers[stage.input_buffer]
        if not buffer.kind.is_shuffle:
            return self._tasks(len(self._job.pieces(buffer.buffer_id)))
        parts = [
            self._stage(writer)
            for writer in self._job.plan.writers(buffer.buffer_id)
            if writer.stage_id in self._job.section.stages
        ]
        if self._job.files.get(buffer.buffer_id) or not parts:
            parts.append(self._files(buffer.buffer_id))
        frame = parts[0]
        for part in parts[1:]:
            frame = frame.union(part)
        return frame.repartitionById(self._job.tasks, "shard")

    def _files(self, buffer_id: str) -> DataFrame:
        ref = self._ref

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return read_files(ref, buffer_id, batches)

        return self._map(self._tasks(len(self._job.pieces(buffer_id))), read)

    def _tasks(self, count: int) -> DataFrame:
        return self._session.range(0, count, 1, count)

    def _map(
        self,
        frame: DataFrame,
        function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    ) -> DataFrame:
        return self._pools.map_in_arrow(frame, function, SCHEMA, self._slot)
