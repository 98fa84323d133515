"""Kinds of elements: random values of each kind, their type hints, and a text that identifies a value.

A kind is a name or, for a compound kind, a tuple of a name and the kinds of its parts. A ``bag`` is
the result of a grouping: an iterable with an undefined order.
"""

from __future__ import annotations

import datetime
import decimal
import random
import typing
import zlib
from typing import Any

import apache_beam as beam
import numpy
from apache_beam.transforms.window import IntervalWindow
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.timestamp import Timestamp
from elements import Colour, Order, Parcel, Plain, Point
from google.protobuf import timestamp_pb2

Kind = str | tuple[Any, ...]

_HINTS: dict[str, Any] = {
    "int": int,
    "float": float,
    "str": str,
    "bytes": bytes,
    "bool": bool,
    "none": type(None),
    "mixed": Any,
    "decimal": decimal.Decimal,
    "date": datetime.date,
    "time": Timestamp,
    "point": Point,
    "order": Order,
    "numpy": numpy.int64,
    "array": numpy.ndarray,
    "set": set[int],
    "plain": Plain,
    "parcel": Parcel,
    "row": RowTypeConstraint.from_fields([("x", int), ("label", str)]),
    "colour": Any,  # In a tuple of one element, Beam takes an enum for type parameters.
    "big": Any,
    "span": IntervalWindow,
    "message": timestamp_pb2.Timestamp,
}
_INTS = (0, 1, 2, 3, -1, 127, 128, 2**31, -(2**31), 2**63 - 1, -(2**63))
_FLOATS = (0.0, -0.0, 0.5, 1.0, -2.5, 1e300, float("inf"), float("nan"))
_TEXTS = ("", "a", "b", "a\0b", "ä€𝄞", "x\ny", "long " * 100)
_MIXED = ("int", "float", "str", "bytes", "bool", "none", ("tuple", "int", "str"), ("list", "int"))

LEAVES = tuple(name for name in _HINTS if name not in ("big", "span", "message"))
"""Of which a Create may be made, and written down as an expression."""
KEYS = (
    *("int", "str", "bytes", "bool", "none", "mixed-key", "point", "parcel"),
    *("plain", "time", "row", "colour", "big", "span"),
)


def hint(kind: Kind) -> Any:
    """Returns the type hint with which Beam infers a coder for the kind."""
    match kind:
        case str():
            return Any if kind == "mixed-key" else _HINTS[kind]
        case ("tuple", *parts):
            return tuple[tuple(map(hint, parts))]
        case ("list", part):
            return list[hint(part)]
        case ("dict", key, value):
            return dict[hint(key), hint(value)]
        case ("optional", part):
            return typing.Optional[hint(part)]  # noqa: UP045 - the part is known here only
        case ("bag", part):
            return typing.Iterable[hint(part)]
    raise ValueError(f"no kind {kind!r}")


def random_kind(rng: random.Random, depth: int = 2) -> Kind:
    """Returns a random kind, nested up to a depth."""
    shape = rng.choice(["leaf", "leaf", "leaf", "tuple", "list", "dict", "optional"])
    if depth == 0 or shape == "leaf":
        return rng.choice(LEAVES)
    if shape == "tuple":
        return ("tuple", *(random_kind(rng, depth - 1) for _ in range(rng.choice([1, 2, 2, 2, 3]))))
    if shape == "dict":
        return ("dict", rng.choice(["int", "str"]), random_kind(rng, depth - 1))
    return (shape, random_kind(rng, depth - 1))


def random_value(rng: random.Random, kind: Kind) -> Any:
    """Returns a random value of a kind; distinct values are few, so that keys repeat."""
    match kind:
        case ("tuple", *parts):
            return tuple(random_value(rng, part) for part in parts)
        case ("list", part):
            return [random_value(rng, part) for _ in range(rng.randrange(4))]
        case ("dict", key, value):
            size = rng.randrange(3)
            return {random_value(rng, key): random_value(rng, value) for _ in range(size)}
        case ("optional", part):
            return None if rng.random() < 0.3 else random_value(rng, part)
        case "mixed":
            return random_value(rng, rng.choice(_MIXED))
        case "mixed-key":
            # Not 1, 1.0 and True: Beam's harnesses put keys together that are equal before encoding.
            return rng.choice([1, 2.5, "1", b"1", None, (1, "1"), False])
    return _leaf(rng, str(kind))


def _leaf(rng: random.Random, kind: str) -> Any:
    number, text = rng.choice([rng.randrange(6), rng.choice(_INTS)]), rng.choice(_TEXTS)
    match kind:
        case "int":
            return number
        case "float":
            return rng.choice(_FLOATS)
        case "str":
            return text
        case "bytes":
            return text.encode()
        case "bool":
            return rng.random() < 0.5
        case "none":
            return None
        case "decimal":
            return decimal.Decimal(rng.randrange(100)) / 8
        case "date":
            return datetime.date(2020, 1, 1 + rng.randrange(5))
        case "time":
            return Timestamp(micros=rng.randrange(5) * 1_000_000)
        case "point":
            return Point(rng.randrange(5), rng.choice([None, "a", "b"]))
        case "order":
            return made_order(rng.randrange(5), text)
        case "numpy":
            return numpy.int64(rng.randrange(5))
        case "array":
            return numpy.arange(rng.randrange(3))
        case "set":
            return set(range(rng.randrange(4)))
        case "plain":
            return Plain(rng.randrange(5), text)
        case "parcel":
            return Parcel(text.encode())
        case "row":
            return beam.Row(x=rng.randrange(5), label=text)
        case "colour":
            return rng.choice([*Colour])
    raise ValueError(f"no kind {kind!r}")


def made_order(number: int, text: str) -> Order:
    """Returns an order of a user, equal for equal arguments."""
    return Order(
        Point(number, None if number % 2 else text),
        [text] * (number % 3),
        {text: number} if number % 2 else {},
        decimal.Decimal(number) / 4,
        None if number == 3 else Timestamp(number),
        text.encode(),
    )


def render(kind: Kind, value: Any) -> str:
    """Returns a text that is equal for equal values of equal types."""
    match kind:
        case ("bag", part):
            return f"bag{{{', '.join(sorted(render(part, each) for each in value))}}}"
        case ("tuple", *parts) if isinstance(value, tuple):
            inner = (render(part, each) for part, each in zip(parts, value, strict=True))
            return f"({', '.join(inner)})"
        case ("list", part) if isinstance(value, list):
            return f"[{', '.join(render(part, each) for each in value)}]"
        case ("optional", part) if value is not None:
            return render(part, value)
        case ("dict", key_kind, value_kind) if isinstance(value, dict):
            pairs = ((render(key_kind, k), render(value_kind, v)) for k, v in value.items())
            return f"{{{', '.join(f'{k}: {v}' for k, v in sorted(pairs))}}}"
        case "point" | "row":
            # Which class a row has is up to the process that decodes it.
            return f"{kind}(x={value.x!r}, label={value.label!r})"
        case "order":
            place, counts = value.place, sorted(value.counts.items())
            parts = (place.x, place.label, list(value.tags), counts, value.price, value.when)
            return f"order{(*parts, value.content)!r}"
        case "message":
            return f"message {value.seconds}"
    return _as_it_is(value)


def _as_it_is(value: Any) -> str:
    match value:
        case list():
            return f"[{', '.join(map(_as_it_is, value))}]"
        case numpy.ndarray():
            return f"array {value.tolist()}"
        case set():
            return f"set {sorted(value)}"
        case tuple() if type(value) is tuple:
            return f"({', '.join(map(_as_it_is, value))})"
        case dict():
            pairs = sorted((_as_it_is(k), _as_it_is(v)) for k, v in value.items())
            return f"{{{', '.join(f'{k}: {v}' for k, v in pairs)}}}"
    return f"{type(value).__name__} {value!r}"


def digest(kind: Kind, value: Any) -> int:
    """Returns a number that is equal for equal values."""
    return zlib.crc32(render(kind, value).encode("utf-8", "surrogatepass"))
