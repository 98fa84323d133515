"""Where a bundle has its rows from and where they go: on a lane that is the job's folder, for both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import attrs
import pyarrow as pa
from beam_runner_data.rows.files import read_ref
from beam_runner_data.rows.refs import RowsRef
from beam_runner_data.rows.row import Row, RowKind
from beam_runner_data.rows.written import WrittenBuffer
from beam_runner_engine.scheduler.commands import Bundle
from beam_runner_engine.scheduler.events import Output
from beam_runner_model.buffers import BufferPlan


class RowSource(Protocol):
    """Gives the rows that data refers to."""

    def __call__(self, ref: RowsRef) -> Iterator[tuple[RowKind, bytes | pa.Buffer]]:
        """The kind and data of every row, in order; the caller applies the reference's ``first`` and ``last``."""


class BufferWriter(Protocol):
    """Takes what one output of one bundle writes to its buffer."""

    @property
    def buffer_id(self) -> str:
        """The buffer's."""

    @property
    def shards(self) -> int:
        """Into how many shards, or shares, its rows are to be cut."""

    @property
    def has_rows(self) -> bool:
        """Whether anything was written."""

    def write(self, row: Row) -> None:
        """Takes a row."""

    def close(self) -> tuple[Output, ...]:
        """Finishes it; what the scheduler is to hand on of it."""

    def discard(self) -> None:
        """Gives up what was written, after a failure."""


class BundleData(Protocol):
    """What one bundle reads and writes, and where it may keep what does not fit into memory."""

    @property
    def rows(self) -> RowSource:
        """Reads its inputs."""

    @property
    def scratch(self) -> Path:
        """A folder for files that nobody needs after the bundle."""

    def turn(self, bundle: Bundle) -> int:
        """At which share dealing begins: another one for each bundle that deals to the same shares."""

    def writer(self, buffer: BufferPlan, pieces: int, name: str) -> BufferWriter:
        """What takes an output.

        Args:
            buffer: what is written to.
            pieces: how many key shards the job has, and into how many pieces a stored buffer is cut at most.
            name: unique to this output of this attempt.
        """


@attrs.frozen
class FolderData:
    """A bundle of a lane: files in the job's folder (`BundleData`).

    Attributes:
        folder: the job's.
        in_extents: whether readers fetch rows of one shard, and not a whole file.
    """

    folder: Path
    in_extents: bool = False

    def rows(self, ref: RowsRef) -> Iterator[tuple[RowKind, bytes | pa.Buffer]]:
        """See `RowSource`.

        Raises:
            RowsError: the file is missing, or not what was written.
        """
        return read_ref(self.folder, ref)

    @property
    def scratch(self) -> Path:
        """The folder itself: the server removes what no commit names."""
        return self.folder

    def turn(self, bundle: Bundle) -> int:
        """The number of the bundle."""
        return bundle.number

    def writer(
        self, buffer: BufferPlan, pieces: int, name: str, inline: int | None = None
    ) -> BufferWriter:
        """A file of the folder, but for what is little: `INLINE_BYTES`, or no more than so many bytes."""
        return WrittenBuffer(buffer, pieces, self.folder, name, inline, in_extents=self.in_extents)
