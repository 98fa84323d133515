"""References to rows, which are blocks of encoded elements. The engine passes a reference on as
``Data.ref`` and never inspects it.
"""

from __future__ import annotations

from typing import TypeAlias
from zlib import crc32

import attrs

from beam_runner_data.rows.row import RowKind

SIDE = "side"
"""Name of the folder of side-input indexes, inside the job's folder."""


@attrs.frozen
class KeyShare:
    """Share of all keys: the keys of one shard, given the number of shards.

    Attributes:
        shard: the number of the shard.
        shards: the number of shards.
    """

    shard: int
    shards: int

    def contains_key(self, key: bytes) -> bool:
        """Returns whether an encoded key belongs to the shard, see `columns.split_by_shard`."""
        return crc32(key) % self.shards == self.shard


@attrs.frozen
class FileRows:
    """Reference to some rows of a file.

    Attributes:
        path: the file's path, relative to the job's folder; its name belongs to one attempt at a
            bundle.
        rows: the indexes of the selected rows.
        first: the index of the first selected element, counted over these rows.
        last: the index after the last selected element; None for all.
        checksum: the checksum of the file's directory, which covers all other data.
        share: the keys of the elements that count, because an update split their key shard; None
            for all keys.
    """

    path: str
    rows: tuple[int, ...]
    first: int = 0
    last: int | None = None
    checksum: int = 0
    share: KeyShare | None = None


@attrs.frozen
class InlineRows:
    """Rows that are stored in the reference itself, because the rows are small.

    Attributes:
        name: name that is unique in the job, so that equal rows of different bundles stay different
            data.
        rows: kind and data of each row.
        first: the index of the first selected element, counted over these rows.
        last: the index after the last selected element; None for all.
        share: as for `FileRows`.
    """

    name: str
    rows: tuple[tuple[RowKind, bytes], ...] = attrs.field(repr=False)
    first: int = 0
    last: int | None = None
    share: KeyShare | None = None


RowsRef: TypeAlias = FileRows | InlineRows


@attrs.frozen
class Segment:
    """Reference to an immutable file with a committed part of the state of one key shard of a stage.

    Attributes:
        path: path of the file, relative to the job's folder.
        size: length of the file in bytes.
        level: number of merges that produced the file; 0 for a segment that a bundle wrote.
        checksum: checksum that covers all other checksums in the file.
        masked: names of states whose cells in the file don't count, because an update dropped them.
        share: the keys whose cells in the file count, because an update split the key shard; None
            for all keys.
    """

    path: str
    size: int
    level: int = 0
    checksum: int = 0
    masked: tuple[str, ...] = ()
    share: KeyShare | None = None


@attrs.frozen
class StateCommit:
    """State of a key shard after a bundle: the complete new list of state segments.

    Attributes:
        segments: all segments, oldest first; replaces the earlier list.
    """

    segments: tuple[Segment, ...]
