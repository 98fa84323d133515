"""Files of rows: written under a name that no other attempt has, mapped and read row by row."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from beam_spark_executor.storage.refs import FileRows, RowsRef
from beam_spark_executor.storage.rows import Row, RowKind

_SCHEMA = pa.schema([("kind", pa.int8()), ("data", pa.large_binary())])


class RowFileWriter:
    """Writes rows to a new file: an Arrow IPC file with one row a batch.

    Only files that a committed reply names are ever read, so those of attempts that failed, or
    that go on writing after they were given up, do no harm.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._writer = pa.ipc.new_file(str(path), _SCHEMA)

    def write(self, row: Row) -> None:
        """Appends a row."""
        columns = [
            pa.array([int(row.kind)], pa.int8()),
            _one_value(row.data),
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=_SCHEMA))

    def close(self) -> None:
        """Finishes the file. It survives every process, but a power cut only if it was synced."""
        self._writer.close()

    def discard(self) -> None:
        """Gives the file up, after a failure, which may be that it can't be finished."""
        with contextlib.suppress(OSError):
            self._writer.close()
        self._path.unlink(missing_ok=True)


def _one_value(data: bytes) -> pa.Array:
    """A column of one value, which is not copied."""
    ends = struct.pack("=qq", 0, len(data))
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), 1, [None, pa.py_buffer(ends), pa.py_buffer(data)]
    )


class RowFile:
    """A finished file of rows, mapped; rows may be read from any thread."""

    def __init__(self, path: Path) -> None:
        self._reader = pa.ipc.open_file(pa.memory_map(str(path)))

    def row(self, number: int) -> tuple[RowKind, pa.Buffer]:
        """The kind and data of a row, which is not copied."""
        batch = self._reader.get_batch(number)
        return RowKind(batch.column("kind")[0].as_py()), only_value(batch.column("data"))


def only_value(column: pa.Array) -> pa.Buffer:
    """The only value of a binary column with 64-bit offsets, where it lies: pyarrow's scalars are
    copies."""
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int64)
    first, last = offsets[column.offset : column.offset + 2].tolist()
    return column.buffers()[2].slice(first, last - first)


def read_ref(folder: Path, ref: RowsRef) -> Iterator[tuple[RowKind, bytes | pa.Buffer]]:
    """The kind and data of every row of a reference, in order; files are mapped, not copied.

    ``first`` and ``last`` of the reference are the caller's to apply.
    """
    if not isinstance(ref, FileRows):
        yield from ref.rows
        return
    file = RowFile(folder / ref.path)
    for number in ref.rows:
        yield file.row(number)
