"""Grouping of element columns by key and window with plain dictionaries, in linear time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, TypeAlias

from beam_runner_model.times import Timestamp

KeyColumns: TypeAlias = tuple[list[bytes], list[Timestamp], list[Any]]
"""Encoded windows, timestamps (ms) and values of one key's elements, in order of arrival."""


def check_column_lengths(*columns: Sequence[Any]) -> None:
    """Checks that the columns of keys, windows, timestamps and values have the same length.

    Raises:
        ValueError: If the lengths differ.
    """
    lengths = [len(column) for column in columns]
    if len(set(lengths)) != 1:
        raise ValueError(
            "Columns must have the same length, not: {} keys, {} windows, {} timestamps, {} values".format(
                *lengths
            )
        )


def append_column_values(
    kept: dict[bytes, dict[bytes, list[Any]]],
    keys: Sequence[bytes],
    windows: Sequence[bytes],
    column: Sequence[Any],
) -> None:
    """Appends the values of a column to the lists in `kept`, which maps each window and then each
    key to a list.
    """
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


def append_element_rows(
    kept: dict[bytes, KeyColumns],
    keys: Sequence[bytes],
    windows: Sequence[bytes],
    timestamps: Sequence[Timestamp],
    values: Sequence[Any],
) -> None:
    """Appends the window, timestamp and value of each element to the columns of the element's
    key.
    """
    for key, window, timestamp, value in zip(keys, windows, timestamps, values, strict=True):
        columns = kept.get(key)
        if columns is None:
            columns = kept[key] = ([], [], [])
        columns[0].append(window)
        columns[1].append(timestamp)
        columns[2].append(value)
