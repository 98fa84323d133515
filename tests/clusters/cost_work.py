"""What costs are measured of: values to group and words to count, made where they are needed, and what comes out of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

VALUE = 1000
"""Bytes of a value, and of a line."""
SHORT = 200
"""Bytes of a short value."""
PIECE = 1000
"""Values, or lines, that are made at once; of short values there are as many bytes."""
_KEYS = 997
_SMALL = 100_000
"""Numbers that are made at once."""
_WORDS = 5003
_WORDS_OF_A_LINE = VALUE // 8


def values(piece: int, size: int = VALUE) -> Iterator[tuple[int, bytes]]:
    """A thousand of a thousand bytes each, by their keys, or more shorter ones; nothing can make them shorter still."""
    noise = random.Random(piece)
    count = PIECE * VALUE // size
    for number in range(piece * count, (piece + 1) * count):
        yield number % _KEYS, number.to_bytes(8, "big") + noise.randbytes(size - 8)


def short_values(piece: int) -> Iterator[tuple[int, bytes]]:
    """The same of short ones."""
    return values(piece, SHORT)


def numbers(group: tuple[int, Iterable[bytes]]) -> tuple[int, int]:
    """How many values a key has, and what they add up to."""
    found = [int.from_bytes(value[:8], "big") for value in group[1]]
    return len(found), sum(found)


def grouped(pieces: int, size: int = VALUE) -> tuple[int, int]:
    """What those of all keys add up to."""
    return _up_to(pieces * (PIECE * VALUE // size))


def grouped_short(pieces: int) -> tuple[int, int]:
    """The same of short ones."""
    return grouped(pieces, SHORT)


def as_one(value: tuple[int, bytes]) -> tuple[int, int]:
    """A value that is counted by itself."""
    return 1, int.from_bytes(value[1][:8], "big")


def apart(group: tuple[int, Iterable[bytes]]) -> Iterator[tuple[int, bytes]]:
    """The values of a group again, each with its key."""
    for value in group[1]:
        yield group[0], value


def sides(pair: tuple[int, tuple[Iterable[bytes], Iterable[bytes]]]) -> tuple[int, int]:
    """The same as `numbers` of what two collections have for a key."""
    return both(numbers((pair[0], pair[1][0])), numbers((pair[0], pair[1][1])))


def small(piece: int) -> Iterator[tuple[int, int]]:
    """A hundred thousand numbers by their keys."""
    for number in range(piece * _SMALL, (piece + 1) * _SMALL):
        yield number % _KEYS, number


def total(group: tuple[int, Iterable[int]]) -> tuple[int, int]:
    """How many numbers a key has, and what they add up to."""
    found = list(group[1])
    return len(found), sum(found)


def grouped_small(pieces: int) -> tuple[int, int]:
    """What those of all keys add up to."""
    return _up_to(pieces * _SMALL)


def added(pieces: int) -> tuple[int, int]:
    """How many keys there are, and what their numbers add up to."""
    return _KEYS, _up_to(pieces * _SMALL)[1]


def lines(piece: int) -> Iterator[str]:
    """A thousand lines of a thousand letters, of words that come at the same rate."""
    for line in range(piece * PIECE, (piece + 1) * PIECE):
        first = line * _WORDS_OF_A_LINE
        words = range(first, first + _WORDS_OF_A_LINE)
        yield " ".join(f"w{word % _WORDS:06}" for word in words)


def counted(pieces: int) -> tuple[int, int]:
    """How many words there are, and how often they come in all."""
    count = pieces * PIECE * _WORDS_OF_A_LINE
    return min(_WORDS, count), count


def both(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """The sums of two pairs."""
    return one[0] + other[0], one[1] + other[1]


def _up_to(count: int) -> tuple[int, int]:
    return count, count * (count - 1) // 2


class Grouping(NamedTuple):
    """A job that groups pairs by their keys.

    Attributes:
        make: the pairs of a piece.
        kind: of their values; keys are numbers.
        tell: what a group is counted as.
        expected: what all groups of so many pieces add up to.
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
