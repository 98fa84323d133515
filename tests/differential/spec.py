"""A pipeline as data: steps in order, each of which reads earlier ones by their numbers.

Every step takes whatever kind of elements and whatever windows it is given, so that a pipeline of
which steps were removed is a pipeline still.
"""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import apache_beam as beam
import attrs
import numpy
from apache_beam.utils.timestamp import Timestamp
from elements import Colour, Order, Parcel, Plain, Point


@attrs.frozen
class Step:
    """One step.

    Attributes:
        op: its name among the steps that can be built.
        inputs: the numbers of the steps it reads.
        args: what its builder takes, plain data.
    """

    op: str
    inputs: tuple[int, ...] = ()
    args: dict[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class Spec:
    """A pipeline: its steps. Compared is what comes of those that no other reads."""

    steps: tuple[Step, ...]

    def __str__(self) -> str:
        """The expression that makes it."""
        lines = [f"    {step!r}," for step in self.steps]
        return "\n".join(["Spec((", *lines, "))"])

    def without(self, number: int) -> Spec | None:
        """The pipeline without one step, whose readers read what it read; None if that can't be."""
        step = self.steps[number]
        readers = [s for s in self.steps if number in s.inputs]
        if readers and not step.inputs:
            return None
        kept = []
        for index, each in enumerate(self.steps):
            if index == number:
                continue
            inputs = (step.inputs[0] if i == number else i for i in each.inputs)
            shifted = tuple(i - (i > number) for i in inputs)
            kept.append(attrs.evolve(each, inputs=shifted))
        return Spec(tuple(kept)) if kept else None


def from_text(text: str) -> Spec:
    """The pipeline that :meth:`Spec.__str__` wrote."""
    names = {
        "Colour": Colour,
        "Decimal": decimal.Decimal,
        "Order": Order,
        "Parcel": Parcel,
        "Plain": Plain,
        "Point": Point,
        "Row": beam.Row,
        "Spec": Spec,
        "Step": Step,
        "Timestamp": Timestamp,
        "datetime": datetime,
        "inf": float("inf"),
        "nan": float("nan"),
        "array": numpy.array,
        "int64": numpy.int64,
        "np": numpy,
    }
    found = eval(text, names)
    if not isinstance(found, Spec):
        raise ValueError(f"not a pipeline: {text[:80]}")
    return found
