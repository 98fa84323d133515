"""Operations that the server must refuse at once and by name."""

from __future__ import annotations

from collections.abc import Callable

import apache_beam as beam
import attrs
from operations import Stream
from span_windows import Windows
from spec import Spec


@attrs.frozen
class RefusedOperation:
    """An operation and a part of the text that refuses it."""

    add: Callable[[Stream], Stream]
    text: str


def mixed(stream: Stream) -> Stream:
    """Returns the elements in windows of two kinds, which have different coders."""
    pairs = stream.pairs()
    kinds = [Windows(), Windows(("fixed", 50, 0))]
    parts = tuple(pairs.in_windows(kind, f"Kind{n}").pc for n, kind in enumerate(kinds))
    return Stream(parts | f"{stream.label}/Flatten" >> beam.Flatten(), stream.label)


REFUSED = {"mixed": RefusedOperation(mixed, "whose windows have another coder")}


def refusal_of(spec: Spec) -> str | None:
    """Returns a part of the text with which a pipeline must be refused; None if it must run."""
    return next((REFUSED[step.op].text for step in spec.steps if step.op in REFUSED), None)
