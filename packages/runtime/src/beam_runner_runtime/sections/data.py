"""Input and output of bundles in a section. Data between stages of the section goes through Spark's
shuffle; other data is in the job's files.
"""

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
"""Maximum total size (bytes) of one output that the tasks of a section return in their replies, instead of in files."""


@attrs.frozen
class SectionData:
    """Input and output of a bundle in a section (stages that run as one Spark job); implements
    `beam_runner_runtime.bundles.bundle_data.BundleData`.

    Attributes:
        shards: number of tasks per level (a level is one Spark stage).
        inbox: input from tasks of earlier levels.
        outbox: output for tasks of later levels.
        scratch: folder on this machine.
    """

    plan: SectionPlan
    source: int
    shards: int
    inbox: SectionInbox
    outbox: SectionOutbox
    outside: FolderData
    scratch: Path

    def read_rows(self, ref: RowsRef | ReceivedRows) -> Iterator[tuple[RowKind, bytes | pa.Buffer]]:
        """Yields the rows of a reference, see `RowSource`.

        Raises:
            RowsError: The file is missing or damaged.
        """
        if isinstance(ref, ReceivedRows):
            return ((kind, data) for kind, _, data in self.inbox.read_rows(ref.stage))
        return self.outside.read_rows(ref)

    def choose_first_partition(self, bundle: Bundle) -> int:
        """Returns the number of the task, which is the same in every attempt."""
        return self.source

    def open_writer(self, buffer: BufferPlan, pieces: int, name: str) -> BufferWriter:
        """Returns a writer that sends parcels (batches of rows) to the stage of the section that
        reads the buffer.

        If no stage of the section reads the buffer, the writer writes a file. Small output is part
        of the reply instead.
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
        stage: index of the reading stage in the section.
        shards: number of target tasks.
        here: shard that receives all rows; None if each row names its shard.
    """

    def __init__(
        self, buffer_id: str, stage: int, outbox: SectionOutbox, shards: int, here: int | None
    ) -> None:
        self.buffer_id = buffer_id
        self.shards = shards
        self._stage = stage
        self._outbox = outbox
        self._here = here

    def write(self, row: Row) -> None:
        """Adds a row to the outbox."""
        self._outbox.add_row(row.shard if self._here is None else self._here, self._stage, row)

    def close(self) -> tuple[Output, ...]:
        """Returns an empty list of outputs, because the scheduler doesn't manage data inside a section."""
        return ()

    def discard(self) -> None:
        """Does nothing: readers ignore the rows of a failed task, because no closing record (count
        and digest) follows the rows.
        """
