"""References to rows: what the engine carries as ``Data.ref`` and never looks into."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from beam_runner_data.rows.row import RowKind

SIDE = "side"
"""The folder of all indexes, in the job's."""


@attrs.frozen
class FileRows:
    """Some rows of a file.

    Attributes:
        path: the file's, relative to the job's folder; its name is that of one attempt at a bundle.
        rows: the numbers of the rows meant.
        first: the number of the first element meant, counted over these rows.
        last: the number after the last element meant; None for all.
        checksum: of the file's directory of rows, by which all else in it is checked.
    """

    path: str
    rows: tuple[int, ...]
    first: int = 0
    last: int | None = None
    checksum: int = 0


@attrs.frozen
class InlineRows:
    """Rows so small that they travel with the reference.

    Attributes:
        name: unique in the job, so that equal rows of different bundles stay different data.
        rows: kind and data of each.
        first: the number of the first element meant, counted over these rows.
        last: the number after the last element meant; None for all.
    """

    name: str
    rows: tuple[tuple[RowKind, bytes], ...] = attrs.field(repr=False)
    first: int = 0
    last: int | None = None


RowsRef: TypeAlias = FileRows | InlineRows


@attrs.frozen
class Segment:
    """A committed part of the state of one key shard of a stage: a file that never changes.

    Attributes:
        path: relative to the job's folder.
        size: its length in bytes.
        level: how many generations of merges it has been through; new ones have 0.
        checksum: of what all else in it is checked by.
    """

    path: str
    size: int
    level: int = 0
    checksum: int = 0


@attrs.frozen
class StateCommit:
    """What a bundle did to its shard's state: the segments that make it up from now on.

    Attributes:
        segments: all of them, oldest first; replaces the earlier list as a whole.
    """

    segments: tuple[Segment, ...]
