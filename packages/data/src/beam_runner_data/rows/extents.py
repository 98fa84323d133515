"""Which bytes of a file have to be had for some of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

REQUEST_BYTES = 1 << 20
"""A request to a store takes about as long as so many bytes do: they are had rather than asked for by another one."""


def extents(
    directory: npt.NDArray[np.void], rows: Iterable[int], gap: int = REQUEST_BYTES
) -> Sequence[tuple[int, int]]:
    """Where rows lie: begin and end of each run of bytes, ascending and apart.

    Args:
        directory: of the file, see `beam_runner_data.rows.files`.
        rows: their numbers.
        gap: how many bytes between two rows are had, too, so that they are one run.
    """
    chosen = directory[sorted(set(rows))]
    starts = chosen["at"].astype(np.int64)
    ends = starts + chosen["size"].astype(np.int64)
    begins = np.flatnonzero(starts[1:] - ends[:-1] > gap) + 1
    firsts, lasts = np.concatenate(([0], begins)), np.concatenate((begins, [len(chosen)])) - 1
    return (
        list(zip(starts[firsts].tolist(), ends[lasts].tolist(), strict=True)) if len(chosen) else []
    )


def rows_within(
    directory: npt.NDArray[np.void], runs: Iterable[tuple[int, int]]
) -> npt.NDArray[np.bool_]:
    """Whether each row lies in one of the runs."""
    starts = directory["at"].astype(np.int64)
    ends = starts + directory["size"].astype(np.int64)
    within = np.zeros(len(directory), dtype=np.bool_)
    for start, end in runs:
        within |= (starts >= start) & (ends <= end)
    return within
