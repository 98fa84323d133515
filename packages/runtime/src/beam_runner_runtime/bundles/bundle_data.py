"""Input and output rows of a bundle. A bundle that runs on a lane (and not in a section) reads and
writes files in the job's folder.
"""

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
    """Function that reads the rows that a data reference points to."""

    def __call__(self, ref: RowsRef) -> Iterator[tuple[RowKind, bytes | pa.Buffer]]:
        """Yields the kind and bytes of each row, in order. The caller must skip elements outside of
        the reference's ``first`` and ``last``.
        """


class BufferWriter(Protocol):
    """Writer of one output of a bundle to a buffer (the data between two stages)."""

    @property
    def buffer_id(self) -> str:
        """ID of the buffer."""

    @property
    def shards(self) -> int:
        """Number of key shards (hash partitions of keys) or partitions into which the rows are
        divided.
        """

    def write(self, row: Row) -> None:
        """Writes a row."""

    def close(self) -> tuple[Output, ...]:
        """Finishes the output, and returns references to the written data for the scheduler."""

    def discard(self) -> None:
        """Discards the written rows after a failure."""


class BundleData(Protocol):
    """Reader of the input, writers of the outputs, and folder for temporary files of one bundle."""

    @property
    def read_rows(self) -> RowSource:
        """Reader of the bundle's inputs."""

    @property
    def scratch(self) -> Path:
        """Folder for temporary files of the bundle."""

    def choose_first_partition(self, bundle: Bundle) -> int:
        """Returns the partition at which a bundle starts to write reshuffled output. It differs
        between bundles, so that all partitions get a similar amount.
        """

    def open_writer(self, buffer: BufferPlan, pieces: int, name: str) -> BufferWriter:
        """Returns the writer of an output.

        Args:
            buffer: buffer of the output.
            pieces: number of key shards of the job; also the maximum number of pieces into which
                stored output is divided.
            name: name that is unique to this output of this attempt.
        """


@attrs.frozen
class FolderData:
    """Input and output of a bundle that runs on a lane (a worker process for one bundle after
    another): files in the folder of the job.

    Attributes:
        in_extents: whether a reader fetches only the byte range of one key shard, and not the
            complete file.
    """

    folder: Path
    in_extents: bool = False

    def read_rows(self, ref: RowsRef) -> Iterator[tuple[RowKind, bytes | pa.Buffer]]:
        """Yields the rows of a reference, see `RowSource`.

        Raises:
            RowsError: The file is missing or damaged.
        """
        return read_referenced_rows(self.folder, ref)

    @property
    def scratch(self) -> Path:
        """Folder of the job. The server deletes files in this folder that no commit refers to."""
        return self.folder

    def choose_first_partition(self, bundle: Bundle) -> int:
        """Returns the bundle number, so that successive bundles start with different partitions."""
        return bundle.number

    def open_writer(
        self, buffer: BufferPlan, pieces: int, name: str, inline: int | None = None
    ) -> BufferWriter:
        """Returns a writer of a file in the folder. Output of up to `INLINE_BYTES`, or ``inline``
        bytes, isn't written to a file, but is part of the reply.
        """
        return RowBufferWriter(
            buffer, pieces, self.folder, name, inline, in_extents=self.in_extents
        )
