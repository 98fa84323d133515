"""The rows that a bundle reads and writes; a bundle of a lane reads and writes files in the job's folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import attrs
import pyarrow as pa
from beam_runner_data.rows.files import read_referenced_rows
from beam_runner_data.rows.refs import RowsRef
from beam_runner_data.rows.row import Row, RowKind
from beam_runner_data.rows.written import RowBufferWriter
from beam_runner_engine.scheduler.commands import Bundle
from beam_runner_engine.scheduler.events import Output
from beam_runner_model.buffers import BufferPlan


class RowSource(Protocol):
    """Function that reads the rows of a data reference."""

    def __call__(self, ref: RowsRef) -> Iterator[tuple[RowKind, bytes | pa.Buffer]]:
        """Yields the kind and data of every row, in order. The caller trims the rows to the
        reference's ``first`` and ``last``.
        """


class BufferWriter(Protocol):
    """Writer of one bundle output to its buffer."""

    @property
    def buffer_id(self) -> str:
        """ID of the buffer."""

    @property
    def shards(self) -> int:
        """Number of shards or partitions that the rows are split into."""

    @property
    def has_rows(self) -> bool:
        """Whether at least one row was written."""

    def write(self, row: Row) -> None:
        """Writes a row."""

    def close(self) -> tuple[Output, ...]:
        """Finishes the output, and returns its records for the scheduler."""

    def discard(self) -> None:
        """Discards the written rows after a failure."""


class BundleData(Protocol):
    """Input and output of one bundle, and its folder for data that exceeds the memory."""

    @property
    def rows(self) -> RowSource:
        """Reader of the bundle's inputs."""

    @property
    def scratch(self) -> Path:
        """Folder for temporary files of the bundle."""

    def choose_first_partition(self, bundle: Bundle) -> int:
        """Returns the first partition for rebalanced output, which differs between bundles that write
        to the same partitions.
        """

    def open_writer(self, buffer: BufferPlan, pieces: int, name: str) -> BufferWriter:
        """Returns the writer of an output.

        Args:
            buffer: buffer of the output.
            pieces: number of key shards of the job, and the maximum number of pieces of a stored
                buffer.
            name: name that is unique to this output of this attempt.
        """


@attrs.frozen
class FolderData:
    """Data of a lane's bundle: files in the job's folder (`BundleData`).

    Attributes:
        folder: folder of the job.
        in_extents: whether readers fetch the rows of one shard instead of a complete file.
    """

    folder: Path
    in_extents: bool = False

    def rows(self, ref: RowsRef) -> Iterator[tuple[RowKind, bytes | pa.Buffer]]:
        """Yields the rows of a reference, see `RowSource`.

        Raises:
            RowsError: The file is missing or damaged.
        """
        return read_referenced_rows(self.folder, ref)

    @property
    def scratch(self) -> Path:
        """Folder of the job, from which the server removes files that no commit names."""
        return self.folder

    def choose_first_partition(self, bundle: Bundle) -> int:
        """Returns the bundle number, so that successive bundles start with different partitions."""
        return bundle.number

    def open_writer(
        self, buffer: BufferPlan, pieces: int, name: str, inline: int | None = None
    ) -> BufferWriter:
        """Returns a writer of a file in the folder; output of up to `INLINE_BYTES`, or ``inline``
        bytes, stays in memory.
        """
        return RowBufferWriter(
            buffer, pieces, self.folder, name, inline, in_extents=self.in_extents
        )
