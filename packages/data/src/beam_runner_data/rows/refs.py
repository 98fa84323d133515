"""References to rows. The engine passes them on as ``Data.ref`` and never inspects them."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from beam_runner_data.rows.row import RowKind

SIDE = "side"
"""Name of the folder of side-input indexes, inside the job's folder."""


@attrs.frozen
class FileRows:
    """Reference to some rows of a file.

    Attributes:
        path: the file's path, relative to the job's folder; its name belongs to one attempt at a
            bundle.
        rows: the numbers of the selected rows.
        first: the number of the first selected element, counted over these rows.
        last: the number after the last selected element; None for all.
        checksum: the checksum of the file's directory, which covers all other data.
    """

    path: str
    rows: tuple[int, ...]
    first: int = 0
    last: int | None = None
    checksum: int = 0


@attrs.frozen
class InlineRows:
    """Rows that are stored in the reference itself, because they are small.

    Attributes:
        name: name that is unique in the job, so that equal rows of different bundles stay different
            data.
        rows: kind and data of each row.
        first: the number of the first selected element, counted over these rows.
        last: the number after the last selected element; None for all.
    """

    name: str
    rows: tuple[tuple[RowKind, bytes], ...] = attrs.field(repr=False)
    first: int = 0
    last: int | None = None


RowsRef: TypeAlias = FileRows | InlineRows


@attrs.frozen
class Segment:
    """Reference to an immutable file with a committed part of the state of one key shard of a stage.

    Attributes:
        path: path of the file, relative to the job's folder.
        size: length of the file in bytes.
        level: number of merges that produced the file; 0 for the segment of a bundle.
        checksum: checksum that covers all other checksums in the file.
    """

    path: str
    size: int
    level: int = 0
    checksum: int = 0


@attrs.frozen
class StateCommit:
    """The result of a bundle for its shard's state: the complete new list of segments.

    Attributes:
        segments: all segments, oldest first; replaces the earlier list.
    """

    segments: tuple[Segment, ...]
