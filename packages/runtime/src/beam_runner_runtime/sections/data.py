"""The rows that bundles of a section read and write: Spark's shuffle inside the section, files of the job outside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
import pyarrow as pa
from beam_runner_data.rows.refs import RowsRef
from beam_runner_data.rows.row import Row, RowKind
from beam_runner_data.rows.written import INLINE_BYTES
from beam_runner_engine.scheduler.commands import Bundle
from beam_runner_engine.scheduler.events import Output
from beam_runner_model.buffers import BufferKind, BufferPlan

from beam_runner_runtime.bundles.bundle_data import BufferWriter, FolderData
from beam_runner_runtime.sections.inbox import ReceivedRows, SectionInbox
from beam_runner_runtime.sections.outbox import SectionOutbox
from beam_runner_runtime.sections.plan import SectionPlan

_INLINE_OF_ALL = 16 << 20
"""Maximum bytes of one output that all tasks of a section together return without files."""


@attrs.frozen
class SectionData:
    """Data of a section's bundle; implements `beam_runner_runtime.bundles.bundle_data.BundleData`.

    Attributes:
        plan: plan of the section.
        source: number of the task.
        shards: number of tasks per level.
        inbox: input from tasks of earlier levels.
        outbox: output for tasks of later levels.
        outside: files of the job.
        scratch: folder on this machine.
    """

    plan: SectionPlan
    source: int
    shards: int
    inbox: SectionInbox
    outbox: SectionOutbox
    outside: FolderData
    scratch: Path

    def rows(self, ref: RowsRef | ReceivedRows) -> Iterator[tuple[RowKind, bytes | pa.Buffer]]:
        """Yields the rows of a reference, see `RowSource`.

        Raises:
            RowsError: The file is missing or damaged.
        """
        if isinstance(ref, ReceivedRows):
            return ((kind, data) for kind, _, data in self.inbox.read_rows(ref.stage))
        return self.outside.rows(ref)

    def choose_first_partition(self, bundle: Bundle) -> int:
        """Returns the number of the task, which is the same in every attempt."""
        return self.source

    def open_writer(self, buffer: BufferPlan, pieces: int, name: str) -> BufferWriter:
        """Returns a writer of parcels for the stage in the section that reads the buffer.

        If no stage of the section reads the buffer, the writer writes a file, or returns small
        output inline.
        """
        reader = self.plan.readers.get(buffer.buffer_id)
        if reader is None:
            inline = min(INLINE_BYTES, _INLINE_OF_ALL // self.shards)
            return self.outside.open_writer(buffer, pieces, name, inline)
        here = self.source % self.shards if buffer.kind is BufferKind.STORED else None
        return _StageWriter(buffer.buffer_id, reader.place, self.outbox, self.shards, here)


class _StageWriter:
    """`BufferWriter` for rows that another stage of the same section reads.

    Args:
        buffer_id: ID of the buffer.
        stage: index of the reading stage in the section.
        outbox: outbox for the rows.
        shards: number of target tasks.
        here: shard that receives all rows; None if each row names its shard.
    """

    def __init__(
        self, buffer_id: str, stage: int, outbox: SectionOutbox, shards: int, here: int | None
    ) -> None:
        self.buffer_id = buffer_id
        self.shards = shards
        self.has_rows = False
        self._stage = stage
        self._outbox = outbox
        self._here = here

    def write(self, row: Row) -> None:
        """Adds a row to the outbox."""
        self.has_rows = True
        self._outbox.add_row(row.shard if self._here is None else self._here, self._stage, row)

    def close(self) -> tuple[Output, ...]:
        """Returns no outputs, because the scheduler doesn't manage rows inside a section."""
        return ()

    def discard(self) -> None:
        """Does nothing: readers ignore the parcels of a failed task, because its declarations are missing."""
