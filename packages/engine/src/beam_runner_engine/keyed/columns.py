"""Columns of elements sorted into lists by key and window, at the cost of a dict loop."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate, cycle, islice
from typing import Any, TypeAlias

from beam_runner_engine.values.times import Timestamp

KeyColumns: TypeAlias = tuple[list[bytes], list[Timestamp], list[Any]]
"""Encoded windows, timestamps (ms) and values of one key's elements, in order of arrival."""


def check_lengths(*columns: Sequence[Any]) -> None:
    """Raises ValueError unless keys, windows, timestamps and values are equally many."""
    lengths = [len(column) for column in columns]
    if len(set(lengths)) != 1:
        raise ValueError(
            "columns differ in length: {} keys, {} windows, {} timestamps, {} values".format(
                *lengths
            )
        )


def append_cells(
    kept: dict[bytes, dict[bytes, list[Any]]],
    keys: Sequence[bytes],
    windows: Sequence[bytes],
    column: Sequence[Any],
) -> None:
    """Appends each cell of a column to the list of its window and, in that, its key."""
    if not windows:
        return
    first = windows[0]
    if windows.count(first) == len(windows):
        of_window = kept.setdefault(first, defaultdict(list))
        for key, cell in zip(keys, column, strict=True):
            of_window[key].append(cell)
        return
    for window in dict.fromkeys(windows):
        kept.setdefault(window, defaultdict(list))
    for key, window, cell in zip(keys, windows, column, strict=True):
        kept[window][key].append(cell)


def append_rows(
    kept: dict[bytes, KeyColumns],
    keys: Sequence[bytes],
    windows: Sequence[bytes],
    timestamps: Sequence[Timestamp],
    values: Sequence[Any],
) -> None:
    """Appends each element to the columns of its key."""
    for key, window, timestamp, value in zip(keys, windows, timestamps, values, strict=True):
        columns = kept.get(key)
        if columns is None:
            columns = kept[key] = ([], [], [])
        columns[0].append(window)
        columns[1].append(timestamp)
        columns[2].append(value)


def cut(column: Sequence[Any], start: int, sizes: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """Cuts a column from `start` on into parts of these sizes, again and again.

    Ends where the sizes don't fit a whole time more.
    """
    if len(sizes) == 1 == sizes[0]:
        return zip(column[start:], strict=True)
    ends = cuts(len(column), start, sizes)
    return map(tuple(column).__getitem__, map(slice, (start, *ends), ends))


def cuts(length: int, start: int, sizes: Sequence[int]) -> Sequence[int]:
    """Returns where the parts end into which `cut` cuts a column of this length."""
    if len(sizes) == 1:
        return range(start + sizes[0], length + 1, sizes[0])
    parts = (length - start) // sum(sizes) * len(sizes)
    return list(accumulate(islice(cycle(sizes), parts), initial=start))[1:]
