"""Input of one task of a section: parcels (batches of rows) from tasks of earlier stages, which are
checked and sorted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
import pyarrow as pa
import xxhash
from beam_runner_data.rows.files import RowFile, RowFileWriter
from beam_runner_data.rows.row import Row, RowKind
from beam_runner_data.rows.shuffle_blocks import (
    ShuffleBlockHeader,
    ShuffleBlockKind,
    read_body,
    read_header,
    read_rows,
)

from beam_runner_runtime.sections.replies import SectionReply
from beam_runner_runtime.sections.shuffle_consistency import (
    ExchangeError,
    OutputDeclaration,
    check_received_blocks,
    combine_source_digests,
)
from beam_runner_runtime.sections.wire import decode_section_reply


@attrs.define
class _StoredBlock:
    """Parcel of rows, in memory or at an index of the overflow file."""

    head: ShuffleBlockHeader
    data: bytes | None
    number: int = 0


@attrs.frozen
class ReceivedRows:
    """Reference to the received rows for one stage of the section, for the input of the stage's
    bundle (`beam_runner_engine.scheduler.Data.ref`).

    Attributes:
        stage: index of the stage in the section.
        size: bytes of the rows.
        first: index of the first element.
        last: index after the last element; None for all elements.
    """

    stage: int
    count: int
    size: int
    first: int = 0
    last: int | None = None


class SectionInbox:
    """Storage for the parcels (batches of rows) that a task of a section receives. Rows can be read
    after all parcels have arrived.

    Args:
        path: path of the overflow file, created on demand.
        budget: maximum bytes of parcels in memory.

    Attributes:
        replies: replies of earlier tasks to the server.
    """

    def __init__(self, path: Path, budget: int) -> None:
        self._path = path
        self._budget = budget
        self._bytes = 0
        self._parcels: list[_StoredBlock] = []
        self._writer: RowFileWriter | None = None
        self._in_file = 0
        self._file: RowFile | None = None
        self._told: dict[int, OutputDeclaration] = {}
        self._found: dict[int, dict[int, bytes | None]] = {}
        self.replies: list[SectionReply] = []

    def store_block(self, parcel: bytes) -> None:
        """Stores a parcel (batch of rows) that another task sent to this task.

        Raises:
            ExchangeError: The parcel has arrived before.
        """
        head = read_header(parcel)
        if head.kind is ShuffleBlockKind.TOLD:
            if head.source in self._told:
                raise ExchangeError(
                    f"Spark's shuffle delivered the declaration of task {head.source} twice"
                )
            self._told[head.source] = OutputDeclaration.decode(read_body(parcel))
            return
        found = self._found.setdefault(head.source, {})
        if head.number in found:
            raise ExchangeError(f"Spark's shuffle delivered a parcel of task {head.source} twice")
        if head.kind is ShuffleBlockKind.REPLY:
            found[head.number] = None
            self.replies.append(decode_section_reply(read_body(parcel)))
            return
        found[head.number] = xxhash.xxh3_64_digest(parcel)
        self._store_block(head, parcel)

    def check_blocks(self, level: str, sources: int) -> None:
        """Compares all parcels with the closing records (counts and digests) of the sending tasks,
        and sorts the parcels.

        Args:
            level: names of the stages that sent the parcels.
            sources: number of sending tasks.

        Raises:
            ExchangeError: The parcels differ from the declarations of the sending tasks.
        """
        found = {
            source: [parcels[number] for number in sorted(parcels)]
            for source, parcels in self._found.items()
        }
        check_received_blocks(level, sources, self._told, found)
        self._parcels.sort(key=lambda parcel: (parcel.head.source, parcel.head.number))
        if self._writer is not None:
            self._file = RowFile(self._path, self._writer.close())

    @property
    def input_digest(self) -> int:
        """Digest of all output of the previous level's tasks, which must be the same in all tasks of this level."""
        return combine_source_digests(self._told)

    @property
    def is_incomplete(self) -> bool:
        """Whether input is missing, because an earlier task found a reason to end the section."""
        return any(one.broken for one in self._told.values())

    def count_rows_by_stage(self) -> dict[int, ReceivedRows]:
        """Returns count and size of the received rows, by the index of the target stage."""
        found: dict[int, ReceivedRows] = {}
        for parcel in self._parcels:
            head = parcel.head
            before = found.get(head.stage, ReceivedRows(head.stage, 0, 0))
            count, size = before.count + head.count, before.size + head.size
            found[head.stage] = ReceivedRows(head.stage, count, size)
        return found

    def read_rows(self, stage: int) -> Iterator[tuple[RowKind, int, pa.Buffer]]:
        """Yields the kind, element count and data of each row for a stage; can be called several times."""
        for parcel in self._parcels:
            if parcel.head.stage == stage:
                yield from read_rows(self._read_block(parcel))

    def close(self) -> None:
        """Drops all parcels (batches of rows), and removes the overflow file. Rows that were
        already read stay valid.
        """
        self._parcels.clear()
        if self._writer is not None:
            self._writer.discard()

    def _store_block(self, head: ShuffleBlockHeader, parcel: bytes) -> None:
        self._bytes += len(parcel)
        if self._bytes <= self._budget:
            self._parcels.append(_StoredBlock(head, parcel))
            return
        if self._writer is None:
            self._writer = RowFileWriter(self._path)
        self._writer.write(Row(0, RowKind.KEYED, parcel, head.count))
        self._parcels.append(_StoredBlock(head, None, self._in_file))
        self._in_file += 1

    def _read_block(self, parcel: _StoredBlock) -> bytes | pa.Buffer:
        if parcel.data is not None:
            return parcel.data
        assert self._file is not None, "rows are read before all parcels arrived"
        return self._file.read_row(parcel.number)[1]
