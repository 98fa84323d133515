"""Files of rows: written under a name that no other attempt has, read in pieces."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import pyarrow as pa

from beam_spark_executor.task.rows import Row, RowKind, StoredFile

_SCHEMA = pa.schema([("shard", pa.int32()), ("kind", pa.int32()), ("data", pa.large_binary())])


@attrs.frozen
class Piece:
    """Rows ``first`` to ``last`` (not included) of a file."""

    path: str
    first: int
    last: int


class RowFileWriter:
    """Writes the rows of one buffer; the file exists from the first row on.

    The name is the task attempt's own. Only files that a committed reply names are ever read, so
    those of attempts that failed, or that go on writing after they were given up, do no harm.
    """

    def __init__(self, folder: Path, name: str, buffer_id: str) -> None:
        self._path = folder / name
        self._buffer_id = buffer_id
        self._writer: pa.ipc.RecordBatchFileWriter | None = None
        self._rows = 0
        self._size = 0

    def write(self, row: Row) -> None:
        """Appends a row."""
        if self._writer is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pa.ipc.new_file(str(self._path), _SCHEMA)
        columns = [
            pa.array([row.shard], pa.int32()),
            pa.array([int(row.kind)], pa.int32()),
            pa.array([row.data], pa.large_binary()),
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=_SCHEMA))
        self._rows += 1
        self._size += len(row.data)

    def close(self) -> StoredFile | None:
        """Finishes the file; None if there was nothing to write."""
        if self._writer is None:
            return None
        self._writer.close()
        return StoredFile(self._buffer_id, str(self._path), self._rows, self._size)

    def discard(self) -> None:
        """Gives the file up, after a failure."""
        if self._writer is not None:
            self._writer.close()
            os.unlink(self._path)


def read_pieces(pieces: Sequence[Piece]) -> Iterator[tuple[int, RowKind, pa.Buffer]]:
    """The shard, kind and data of every row of the pieces, in order, mapped and not copied."""
    for piece in pieces:
        with pa.memory_map(piece.path) as source:
            reader = pa.ipc.open_file(source)
            for index in range(piece.first, piece.last):
                batch = reader.get_batch(index)
                kind = RowKind(batch.column("kind")[0].as_py())
                yield batch.column("shard")[0].as_py(), kind, batch.column("data")[0].as_buffer()
