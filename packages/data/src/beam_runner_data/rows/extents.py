"""Byte ranges of a row file that contain some of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

REQUEST_BYTES = 1 << 20
"""Number of bytes whose transfer takes as long as a request to a store. A gap below this size is read, not skipped."""


def find_byte_ranges(
    directory: npt.NDArray[np.void], rows: Iterable[int], gap: int = REQUEST_BYTES
) -> Sequence[tuple[int, int]]:
    """Returns the byte ranges that contain rows: begin and end of each, ascending and disjoint.

    Args:
        directory: the file's directory, see `beam_runner_data.rows.files`.
        rows: the indexes of the rows.
        gap: the maximum gap in bytes between two rows of one range.
    """
    chosen = directory[sorted(set(rows))]
    starts = chosen["at"].astype(np.int64)
    ends = starts + chosen["size"].astype(np.int64)
    begins = np.flatnonzero(starts[1:] - ends[:-1] > gap) + 1
    firsts, lasts = np.concatenate(([0], begins)), np.concatenate((begins, [len(chosen)])) - 1
    return (
        list(zip(starts[firsts].tolist(), ends[lasts].tolist(), strict=True)) if len(chosen) else []
    )


def mark_rows_within_ranges(
    directory: npt.NDArray[np.void], runs: Iterable[tuple[int, int]]
) -> npt.NDArray[np.bool_]:
    """Returns, for each row, whether the row lies in one of the ranges."""
    starts = directory["at"].astype(np.int64)
    ends = starts + directory["size"].astype(np.int64)
    within = np.zeros(len(directory), dtype=np.bool_)
    for start, end in runs:
        within |= (starts >= start) & (ends <= end)
    return within
