"""Workloads of the cost measurements: generated values to group and words to count, and their expected results."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

VALUE = 1000
"""Bytes of a value, and of a line."""
SHORT = 200
"""Bytes of a short value."""
PIECE = 1000
"""Number of values or lines that are generated together. A piece of short values has the same number of bytes."""
_KEYS = 997
_SMALL = 100_000
"""Numbers that are made at once."""
_WORDS = 5003
_WORDS_OF_A_LINE = VALUE // 8


def values(piece: int, size: int = VALUE) -> Iterator[tuple[int, bytes]]:
    """Yields a chunk of incompressible values of 1,000 bytes with their keys, or of more and
    shorter values.
    """
    noise = random.Random(piece)
    count = PIECE * VALUE // size
    for number in range(piece * count, (piece + 1) * count):
        yield number % _KEYS, number.to_bytes(8, "big") + noise.randbytes(size - 8)


def short_values(piece: int) -> Iterator[tuple[int, bytes]]:
    """Yields a chunk of short values with their keys."""
    return values(piece, SHORT)


def numbers(group: tuple[int, Iterable[bytes]]) -> tuple[int, int]:
    """Returns the count of a key's values, and their sum."""
    found = [int.from_bytes(value[:8], "big") for value in group[1]]
    return len(found), sum(found)


def grouped(pieces: int, size: int = VALUE) -> tuple[int, int]:
    """Returns the sums of `numbers` over all keys."""
    return _up_to(pieces * (PIECE * VALUE // size))


def grouped_short(pieces: int) -> tuple[int, int]:
    """Returns the sums of `numbers` over all keys of short values."""
    return grouped(pieces, SHORT)


def as_one(value: tuple[int, bytes]) -> tuple[int, int]:
    """Returns the count and sum of a single value."""
    return 1, int.from_bytes(value[1][:8], "big")


def apart(group: tuple[int, Iterable[bytes]]) -> Iterator[tuple[int, bytes]]:
    """Yields the values of a group, each with its key."""
    for value in group[1]:
        yield group[0], value


def sides(pair: tuple[int, tuple[Iterable[bytes], Iterable[bytes]]]) -> tuple[int, int]:
    """Returns `numbers` for the values that two collections have for a key."""
    return both(numbers((pair[0], pair[1][0])), numbers((pair[0], pair[1][1])))


def small(piece: int) -> Iterator[tuple[int, int]]:
    """Yields a hundred thousand numbers with their keys."""
    for number in range(piece * _SMALL, (piece + 1) * _SMALL):
        yield number % _KEYS, number


def total(group: tuple[int, Iterable[int]]) -> tuple[int, int]:
    """Returns the count of a key's numbers, and their sum."""
    found = list(group[1])
    return len(found), sum(found)


def grouped_small(pieces: int) -> tuple[int, int]:
    """Returns the sums of `total` over all keys."""
    return _up_to(pieces * _SMALL)


def added(pieces: int) -> tuple[int, int]:
    """Returns the count of keys, and the sum of their numbers."""
    return _KEYS, _up_to(pieces * _SMALL)[1]


def lines(piece: int) -> Iterator[str]:
    """Yields a thousand lines of a thousand letters, of equally frequent words."""
    for line in range(piece * PIECE, (piece + 1) * PIECE):
        first = line * _WORDS_OF_A_LINE
        words = range(first, first + _WORDS_OF_A_LINE)
        yield " ".join(f"w{word % _WORDS:06}" for word in words)


def counted(pieces: int) -> tuple[int, int]:
    """Returns the count of words, and the sum of their frequencies."""
    count = pieces * PIECE * _WORDS_OF_A_LINE
    return min(_WORDS, count), count


def both(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """Returns the sums of two pairs."""
    return one[0] + other[0], one[1] + other[1]


def _up_to(count: int) -> tuple[int, int]:
    return count, count * (count - 1) // 2


class Grouping(NamedTuple):
    """Job that groups pairs by key.

    Attributes:
        make: function that makes the pairs of a chunk.
        kind: type of the values; keys are numbers.
        tell: function from a group to a pair of numbers.
        expected: function from a number of chunks to the expected sums.
    """

    make: Callable[[int], Iterator[tuple[int, Any]]]
    kind: type
    tell: Callable[[tuple[int, Iterable[Any]]], tuple[int, int]]
    expected: Callable[[int], tuple[int, int]]


GROUPINGS = {
    "group": Grouping(values, bytes, numbers, grouped),
    "group_short": Grouping(short_values, bytes, numbers, grouped_short),
    "group_small": Grouping(small, int, total, grouped_small),
}
