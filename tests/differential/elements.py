"""Classes of elements that every process can import, like the classes of an installed package."""

from __future__ import annotations

import decimal
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from apache_beam import coders
from apache_beam.utils.timestamp import Timestamp


class Point(NamedTuple):
    """An element with a schema."""

    x: int
    label: str | None


class Order(NamedTuple):
    """An element with a schema that has others in it."""

    place: Point
    tags: Sequence[str]
    counts: Mapping[str, int]
    price: decimal.Decimal
    when: Timestamp | None
    content: bytes


class Colour(enum.Enum):
    """Element with few distinct values."""

    RED = 1
    BLUE = "blue"

    def __repr__(self) -> str:
        return f"Colour.{self.name}"


@dataclass(frozen=True)
class Plain:
    """An element that Beam can only pickle."""

    x: int
    label: str


class Parcel:
    """An element that brings its own coder."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parcel) and self.content == other.content

    def __hash__(self) -> int:
        return hash(self.content)

    def __repr__(self) -> str:
        return f"Parcel({self.content!r})"


class ParcelCoder(coders.Coder):
    """Nothing but Python can read it."""

    def encode(self, value: Parcel) -> bytes:
        return b"parcel " + value.content

    def decode(self, encoded: bytes) -> Parcel:
        return Parcel(encoded.removeprefix(b"parcel "))

    def is_deterministic(self) -> bool:
        return True


coders.registry.register_coder(Point, coders.RowCoder)
coders.registry.register_coder(Order, coders.RowCoder)
coders.registry.register_coder(Parcel, ParcelCoder)
