"""Pipeline as data: steps in order, each of which reads earlier steps by number.

Every step accepts any kind of elements and any windows, so that a pipeline stays valid after the
removal of steps.
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
    """Step of a pipeline.

    Attributes:
        op: name of the operation.
        inputs: numbers of its input steps.
        args: arguments of its builder, plain data.
    """

    op: str
    inputs: tuple[int, ...] = ()
    args: dict[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class Spec:
    """Steps of a pipeline. The outputs of steps without readers are compared."""

    steps: tuple[Step, ...]

    def __str__(self) -> str:
        """Returns the expression that makes the spec."""
        lines = [f"    {step!r}," for step in self.steps]
        return "\n".join(["Spec((", *lines, "))"])

    def without(self, number: int) -> Spec | None:
        """Returns the pipeline without one step, whose readers read the step's input; None if this isn't possible."""
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
    """Parses the text that :meth:`Spec.__str__` returns."""
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
