"""Partitioning of rows that exceed memory into files, until each partition fits.

Rows with the same partition key, for example the element's key, are in the same partition, in their
order of arrival. A partition that doesn't fit is split again by another hash, unless all its rows
have the same partition key. Each row is written once for each split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from zlib import crc32

import attrs
import numpy as np
import pyarrow as pa
from beam_runner_model.value_pieces import PIECE_BYTES

from beam_runner_data.rows.columns import (
    combine_batches,
    concatenate_values,
    decode_batch,
    encode_batch,
    split_by_partition,
)
from beam_runner_data.rows.files import RowFileWriter, read_referenced_rows
from beam_runner_data.rows.refs import FileRows
from beam_runner_data.rows.row import Row, RowKind

ROW_BYTES = 64
"""Memory in bytes that grouping needs for a row, in addition to its key and value."""
_MOST_RUNS = 64

PartitionKeyFunction = Callable[[pa.RecordBatch], pa.Array]
"""Function that returns the partition keys of rows: binary, one per row."""


@attrs.frozen
class RowPartition:
    """Partition of rows: a range of a file, in the order in which the rows arrived.

    Attributes:
        count: number of keyed rows.
        size: bytes of keys and values.
        common_key: common partition key of all rows; None if the rows have different keys.
    """

    folder: Path
    ref: FileRows
    count: int
    size: int
    common_key: bytes | None

    @property
    def memory_size(self) -> int:
        """Size of the rows in memory, in bytes."""
        return self.size + ROW_BYTES * self.count

    def read_batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows, memory-mapped; may be repeated as long as the file exists."""
        for _, data in read_referenced_rows(self.folder, self.ref):
            yield decode_batch(data)


class SpillFiles:
    """Partition files of one attempt at a bundle.

    Args:
        folder: folder of the job.
        name: prefix of the file names, unique to the attempt.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self._name = name
        self._made = 0
        self._paths: set[str] = set()

    def create_path(self) -> str:
        """Returns the path of a new file, relative to the folder."""
        self._made += 1
        path = f"{self._name}-spilled-{self._made}.arrow"
        self._paths.add(path)
        return path

    def remove_file(self, path: str) -> None:
        """Removes a file; a process that has mapped the file can still read it."""
        (self.folder / path).unlink(missing_ok=True)
        self._paths.discard(path)

    def remove_all_files(self) -> None:
        """Removes all remaining partition files of the attempt."""
        for path in list(self._paths):
            self.remove_file(path)


@attrs.frozen
class PartitioningRules:
    """Rules for the partitioning of rows into files: the partition key, the memory limit and the
    files.

    Attributes:
        aspect: function that returns the partition keys.
        budget: maximum size of a partition in memory, in bytes.
        shards: number of shards into which the rows are already split by the same partition key; 1
            if the rows aren't split.
    """

    aspect: PartitionKeyFunction
    budget: int
    files: SpillFiles
    shards: int = 1


def create_key_rules(budget: int, files: SpillFiles, shards: int) -> PartitioningRules:
    """Returns the rules by which the rows of one key shard (the keys with the same hash) are
    partitioned by key into files.
    """
    return PartitioningRules(lambda batch: batch.column("key"), budget, files, shards)


def partition_rows_to_fit_memory(
    rules: PartitioningRules, batches: Iterable[pa.RecordBatch], weight: int, depth: int = 0
) -> Iterator[RowPartition]:
    """Yields all rows in partitions that fit into memory, or have a single partition key.

    The caller must exhaust each partition before it requests the next partition.

    Args:
        rules: rules for the partitioning.
        batches: the rows, read once.
        weight: total size of the rows in memory, in bytes.
        depth: number of earlier partitionings.
    """
    path = rules.files.create_path()
    for run in _partition_rows(rules, batches, weight, depth, path):
        if run.memory_size <= rules.budget or run.common_key is not None:
            yield run
        else:
            yield from partition_rows_to_fit_memory(
                rules, run.read_batches(), run.memory_size, depth + 1
            )
    rules.files.remove_file(path)


def _partition_rows(
    rules: PartitioningRules,
    batches: Iterable[pa.RecordBatch],
    weight: int,
    depth: int,
    path: str,
) -> list[RowPartition]:
    # Use twice the number of partitions that suffices for partitions of equal size, because the
    # real sizes differ.
    runs = max(2, min(2 * weight // rules.budget + 1, _MOST_RUNS))
    writer = _PartitionWriter(rules, runs, path)
    try:
        for batch in batches:
            writer.write(batch, lambda each: _choose_partition(each, rules.shards, runs, depth))
        return writer.close()
    except BaseException:
        writer.discard()
        raise


def _choose_partition(aspect: bytes, shards: int, runs: int, depth: int) -> int:
    """Returns the partition number for a partition key.

    The hash is independent of the key's shard and of earlier partitionings of the same rows.
    """
    if depth == 0:
        return crc32(aspect) // shards % runs
    digest = blake2b(aspect, digest_size=4, salt=b"%d" % depth).digest()
    return int.from_bytes(digest) % runs


class _PartitionWriter:
    """Writer that collects the rows of each partition, and appends them to a shared file in large blocks."""

    def __init__(self, rules: PartitioningRules, runs: int, path: str) -> None:
        self._rules = rules
        self._path = path
        self._file = RowFileWriter(rules.files.folder / path)
        self._waiting: list[list[pa.RecordBatch]] = [[] for _ in range(runs)]
        self._waiting_bytes = 0
        self._numbers: list[list[int]] = [[] for _ in range(runs)]
        self._counts = [0] * runs
        self._sizes = [0] * runs
        self._common_keys: dict[int, bytes | None] = {}
        self._written = 0

    def write(self, batch: pa.RecordBatch, choose: Callable[[bytes], int]) -> None:
        """Adds the rows of a batch; `choose` returns the partition number for a partition key."""
        aspects = self._rules.aspect(batch).dictionary_encode()
        run_of_aspect = self._choose_partitions(aspects.dictionary.to_pylist(), choose)
        for run, part in split_by_partition(batch, run_of_aspect[aspects.indices.to_numpy()]):
            self._waiting[run].append(part)
            self._counts[run] += part.num_rows
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes > self._rules.budget // 2:
            self._flush_waiting_rows()

    def _choose_partitions(
        self, aspects: list[bytes], choose: Callable[[bytes], int]
    ) -> np.typing.NDArray[np.int64]:
        """Returns the partition of each partition key, and records partitions that have only one key."""
        partitions = [choose(each) for each in aspects]
        common_keys = self._common_keys
        for aspect, run in zip(aspects, partitions, strict=True):
            if common_keys.setdefault(run, aspect) != aspect:
                common_keys[run] = None
        return np.array(partitions, dtype=np.int64)

    def _flush_waiting_rows(self) -> None:
        for run, waiting in enumerate(self._waiting):
            together: list[pa.RecordBatch] = []
            size = 0
            for batch in waiting:
                together.append(batch)
                size += _count_bytes_of_rows(batch)
                if size >= PIECE_BYTES:
                    self._append_row_to_file(run, together, size)
                    together, size = [], 0
            if together:
                self._append_row_to_file(run, together, size)
            waiting.clear()
        self._waiting_bytes = 0

    def _append_row_to_file(self, run: int, batches: list[pa.RecordBatch], size: int) -> None:
        batch = combine_batches(batches)
        self._file.write(Row(run, RowKind.KEYED, encode_batch(batch), batch.num_rows))
        self._numbers[run].append(self._written)
        self._sizes[run] += size
        self._written += 1

    def close(self) -> list[RowPartition]:
        """Finishes the file; returns the non-empty partitions."""
        self._flush_waiting_rows()
        checksum = self._file.close()
        return [
            RowPartition(
                folder=self._rules.files.folder,
                ref=FileRows(self._path, tuple(numbers), checksum=checksum),
                count=self._counts[run],
                size=self._sizes[run],
                common_key=self._common_keys[run],
            )
            for run, numbers in enumerate(self._numbers)
            if numbers
        ]

    def discard(self) -> None:
        """Removes the unfinished partition file after a failure."""
        self._file.discard()


def _count_bytes_of_rows(batch: pa.RecordBatch) -> int:
    """Returns the size of keys and values in bytes; for a slice of a batch, the size of the slice."""
    return sum(len(concatenate_values(batch.column(name))) for name in ("key", "value"))
