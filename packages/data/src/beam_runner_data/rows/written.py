"""Collection of a bundle's output rows for one buffer: inline while small, otherwise in a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.events import Output
from beam_runner_model.buffers import BufferKind, BufferPlan
from beam_runner_model.facts import DataStatistics
from beam_runner_model.value_pieces import PIECE_BYTES
from beam_runner_model.window_coders import decode_window
from beam_runner_model.windows import Window

from beam_runner_data.rows.extents import REQUEST_BYTES
from beam_runner_data.rows.files import RowFileWriter
from beam_runner_data.rows.refs import FileRows, InlineRows, RowsRef
from beam_runner_data.rows.row import Row

INLINE_BYTES = 32 * 1024
"""Maximum size in bytes of inline data from one bundle to one buffer; larger data goes to a file."""


@attrs.frozen
class _RowDescription:
    """Attributes of a written row, without the data of the row."""

    shard: int
    size: int
    count: int
    min_timestamp: int
    windows: frozenset[bytes] | None
    work: int | None


class RowBufferWriter:
    """Writer of one output of one bundle, which splits the rows into data for the scheduler.

    Args:
        buffer: buffer of the output.
        pieces: number of key shards (hash partitions of keys) of the job. Also the maximum number
            of chunks into which a stored buffer is split, so that several bundles can read the
            buffer in parallel.
        folder: folder of the job.
        name: name of the file without suffix, unique to this output of this attempt.
        inline: maximum bytes that don't go to a file; `INLINE_BYTES` by default.
        in_extents: whether the rows of one shard become adjacent in a large file.

    Attributes:
        buffer_id: ID of the buffer.
        shards: number of shards or partitions that the rows are split into.
    """

    def __init__(
        self,
        buffer: BufferPlan,
        pieces: int,
        folder: Path,
        name: str,
        inline: int | None = None,
        *,
        in_extents: bool = False,
    ) -> None:
        self.buffer_id = buffer.buffer_id
        self._buffer = buffer
        self.shards = pieces
        self._folder = folder
        self._name = name
        self._most_inline = INLINE_BYTES if inline is None else inline
        self._in_extents = in_extents and buffer.kind.is_shuffle
        self._rows: list[_RowDescription] = []
        self._inline: list[Row] = []
        self._size = 0
        self._file: RowFileWriter | None = None
        self._checksum = 0

    def write(self, row: Row) -> None:
        """Adds a row in memory, and writes the collected rows to the file when they are too large."""
        size = len(row.data)
        told = (row.shard, size, row.count, row.min_timestamp, row.windows, row.work)
        self._rows.append(_RowDescription(*told))
        self._size += size
        if self._file is not None:
            self._file.write(row)
            return
        self._inline.append(row)
        if self._size > self._most_inline:
            self._file = RowFileWriter(self._folder / self._file_name)
            for waiting in self._inline:
                self._file.write(waiting)
            self._inline.clear()

    def close(self) -> tuple[Output, ...]:
        """Finishes the file of rows, and returns a record of the written rows for the scheduler."""
        if self._file is not None:
            order = self._sort_rows_by_shard() if self._file.at > REQUEST_BYTES else None
            self._checksum = self._file.close(order)
        cut = self._split_by_shard() if self._buffer.kind.is_shuffle else self._split_by_size()
        if self._buffer.windows:
            cut = self._split_by_window(cut)
        return tuple(
            Output(self.buffer_id, self._build_data(numbers)) for numbers in cut if numbers
        )

    def discard(self) -> None:
        """Discards the written rows after a failure."""
        if self._file is not None:
            self._file.discard()

    @property
    def _file_name(self) -> str:
        return f"{self._name}.arrow"

    def _sort_rows_by_shard(self) -> list[int] | None:
        """Renumbers rows so that the rows of a shard are adjacent.

        Returns the previous row numbers in the new order, or None if renumbering isn't worthwhile.
        """
        shards = [row.shard for row in self._rows]
        if not self._in_extents or shards == sorted(shards):
            return None
        order = sorted(range(len(shards)), key=shards.__getitem__)
        self._rows = [self._rows[number] for number in order]
        return order

    def _split_by_shard(self) -> Iterator[list[int]]:
        numbers: dict[int, list[int]] = {}
        for number, row in enumerate(self._rows):
            numbers.setdefault(row.shard, []).append(number)
        yield from numbers.values()

    def _split_by_size(self) -> Iterator[list[int]]:
        """Yields lists of consecutive row numbers. Each list has enough bytes for a separate bundle."""
        if self._buffer.kind is not BufferKind.STORED:
            yield list(range(len(self._rows)))
            return
        aim = max(PIECE_BYTES, self._size / self.shards)
        run: list[int] = []
        filled = 0
        for number, row in enumerate(self._rows):
            run.append(number)
            filled += row.size
            if filled >= aim:
                yield run
                run, filled = [], 0
        yield run

    def _split_by_window(self, cut: Iterable[list[int]]) -> Iterator[list[int]]:
        """Returns the same data, divided by window, so that a bundle can read a single window."""
        for numbers in cut:
            windows: dict[frozenset[bytes] | None, list[int]] = {}
            for number in numbers:
                windows.setdefault(self._rows[number].windows, []).append(number)
            yield from windows.values()

    def _build_data(self, numbers: list[int]) -> Data:
        rows = [self._rows[number] for number in numbers]
        facts = DataStatistics(
            count=sum(row.count for row in rows),
            size=sum(row.size for row in rows),
            min_timestamp=min(row.min_timestamp for row in rows),
            shard=rows[0].shard if self._buffer.kind.is_keyed else None,
            windows=self._decode_windows(rows),
            work=_sum_restriction_sizes(row.work for row in rows),
        )
        return Data(self._build_reference(numbers), facts)

    def _build_reference(self, numbers: list[int]) -> RowsRef:
        if self._file is not None:
            return FileRows(self._file_name, tuple(numbers), checksum=self._checksum)
        return InlineRows(
            f"{self._name}/{numbers[0]}",
            tuple((self._inline[n].kind, self._inline[n].data) for n in numbers),
        )

    def _decode_windows(self, rows: list[_RowDescription]) -> frozenset[Window] | None:
        if any(row.windows is None for row in rows):
            return None
        told = frozenset[bytes]().union(*(row.windows or () for row in rows))
        strategy = self._buffer.strategy
        assert strategy is not None, "what is written has a windowing strategy"
        return frozenset(decode_window(strategy.window_coder, window) for window in told)


def _sum_restriction_sizes(works: Iterable[int | None]) -> int | None:
    """Returns the total size in bytes of the restrictions in rows; None if the size of a row is unknown."""
    total = 0
    for work in works:
        if work is None:
            return None
        total += work
    return total


def build_inline_data(name: str, row: Row) -> Data:
    """Returns a single row of elements as inline data of a buffer."""
    facts = DataStatistics(row.count, len(row.data), row.min_timestamp, windows=None)
    return Data(InlineRows(name, ((row.kind, row.data),)), facts)
