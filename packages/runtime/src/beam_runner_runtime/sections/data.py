"""Where bundles of a section have their rows from and where they go: Spark's shuffle within it, the job's files outside."""

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
from beam_runner_runtime.sections.outbox import Outbox
from beam_runner_runtime.sections.plan import SectionPlan

_INLINE_OF_ALL = 16 << 20
"""What all tasks of a section may hand on without files, of one output."""


@attrs.frozen
class SectionData:
    """Implements `beam_runner_runtime.bundles.bundle_data.BundleData`.

    Attributes:
        plan: the section's.
        source: the number of the task.
        shards: how many tasks a level has.
        inbox: what came from the tasks before.
        outbox: what goes to the tasks after.
        outside: the job's files.
        scratch: a folder on this machine.
    """

    plan: SectionPlan
    source: int
    shards: int
    inbox: SectionInbox
    outbox: Outbox
    outside: FolderData
    scratch: Path

    def rows(self, ref: RowsRef | ReceivedRows) -> Iterator[tuple[RowKind, bytes | pa.Buffer]]:
        """See `RowSource`.

        Raises:
            RowsError: a file is missing, or not what was written.
        """
        if isinstance(ref, ReceivedRows):
            return ((kind, data) for kind, _, data in self.inbox.rows(ref.stage))
        return self.outside.rows(ref)

    def turn(self, bundle: Bundle) -> int:
        """The number of the task, which is the same in every attempt."""
        return self.source

    def writer(self, buffer: BufferPlan, pieces: int, name: str) -> BufferWriter:
        """Parcels for the stage that reads the buffer; a file, but for what is little, if none of the section does."""
        reader = self.plan.readers.get(buffer.buffer_id)
        if reader is None:
            inline = min(INLINE_BYTES, _INLINE_OF_ALL // self.shards)
            return self.outside.writer(buffer, pieces, name, inline)
        here = self.source % self.shards if buffer.kind is BufferKind.STORED else None
        return _ToStage(buffer.buffer_id, reader.place, self.outbox, self.shards, here)


class _ToStage:
    """Takes what goes to a stage of the section (`BufferWriter`).

    Args:
        buffer_id: the buffer's.
        stage: its place in the section.
        outbox: takes the rows.
        shards: how many tasks they are for.
        here: the shard that takes all of them; None if the rows say which.
    """

    def __init__(
        self, buffer_id: str, stage: int, outbox: Outbox, shards: int, here: int | None
    ) -> None:
        self.buffer_id = buffer_id
        self.shards = shards
        self.has_rows = False
        self._stage = stage
        self._outbox = outbox
        self._here = here

    def write(self, row: Row) -> None:
        """Hands a row on."""
        self.has_rows = True
        self._outbox.add(row.shard if self._here is None else self._here, self._stage, row)

    def close(self) -> tuple[Output, ...]:
        """The scheduler hears nothing of it."""
        return ()

    def discard(self) -> None:
        """The whole task comes to nothing: no one reads what a task has sent that did not say so at its end."""
