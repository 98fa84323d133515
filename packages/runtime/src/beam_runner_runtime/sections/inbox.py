"""Input of one task of a section: all parcels from earlier tasks, checked, in the order of their transmission."""

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
    check_received_parcels,
    combine_source_digests,
)
from beam_runner_runtime.sections.wire import decode_reply


@attrs.define
class _StoredParcel:
    """Parcel of rows, either in memory or at an index of the file."""

    head: ShuffleBlockHeader
    data: bytes | None
    number: int = 0


@attrs.frozen
class ReceivedRows:
    """All rows for one stage, referenced by its bundle (`beam_runner_engine.scheduler.Data.ref`).

    Attributes:
        stage: index of the stage in the section.
        count: number of elements.
        size: bytes of the rows.
        first: number of the first referenced element.
        last: number after the last referenced element; None for all elements.
    """

    stage: int
    count: int
    size: int
    first: int = 0
    last: int | None = None


class SectionInbox:
    """Received parcels (batches of rows) of a section's task; returns rows after all parcels have arrived.

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
        self._parcels: list[_StoredParcel] = []
        self._writer: RowFileWriter | None = None
        self._in_file = 0
        self._file: RowFile | None = None
        self._told: dict[int, OutputDeclaration] = {}
        self._found: dict[int, dict[int, bytes | None]] = {}
        self.replies: list[SectionReply] = []

    def store_parcel(self, parcel: bytes) -> None:
        """Stores a parcel that another task sent to this task.

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
            self.replies.append(decode_reply(read_body(parcel)))
            return
        found[head.number] = xxhash.xxh3_64_digest(parcel)
        self._store_parcel(head, parcel)

    def check_parcels(self, level: str, sources: int) -> None:
        """Compares all parcels with the declarations of their senders, and sorts the parcels.

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
        check_received_parcels(level, sources, self._told, found)
        self._parcels.sort(key=lambda parcel: (parcel.head.source, parcel.head.number))
        if self._writer is not None:
            self._file = RowFile(self._path, self._writer.close())

    @property
    def input_digest(self) -> int:
        """Digest of all output of the previous level, for this task and all other tasks."""
        return combine_source_digests(self._told)

    @property
    def is_incomplete(self) -> bool:
        """Whether input is missing because the section must end."""
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
                yield from read_rows(self._read_parcel(parcel))

    def close(self) -> None:
        """Drops all parcels and removes the file; open row buffers stay readable."""
        self._parcels.clear()
        if self._writer is not None:
            self._writer.discard()

    def _store_parcel(self, head: ShuffleBlockHeader, parcel: bytes) -> None:
        self._bytes += len(parcel)
        if self._bytes <= self._budget:
            self._parcels.append(_StoredParcel(head, parcel))
            return
        if self._writer is None:
            self._writer = RowFileWriter(self._path)
        self._writer.write(Row(0, RowKind.KEYED, parcel, head.count))
        self._parcels.append(_StoredParcel(head, None, self._in_file))
        self._in_file += 1

    def _read_parcel(self, parcel: _StoredParcel) -> bytes | pa.Buffer:
        if parcel.data is not None:
            return parcel.data
        assert self._file is not None, "rows are read before all parcels arrived"
        return self._file.read_row(parcel.number)[1]
