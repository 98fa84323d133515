"""Builds the pipelines of specs, as streams or as batches, and computes their expected output with the model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import attrs
from model import ON_TIME, Rows
from operation_models import MODELS
from operations import OPERATIONS, Stream
from refused_operations import REFUSED
from spec import Spec
from stateful_models import STATEFUL_MODELS
from stateful_operations import STATEFUL
from tapping import Outputs, Tap, add_tap, row_text, write_all
from triggered_operations import TRIGGERED

INVARIANT = ("panes", "admitted")
"""Operations whose output depends on the order of arrival, so that only invariants hold."""
BY_BATCH, BY_MODEL = "the model and FnApiRunner", "the model alone"
BY_INVARIANTS, BY_REFUSAL, BY_NOTHING = "the invariants", "a refusal", "nothing"
_Collection = TypeVar("_Collection", Stream, Rows)
_ALL = OPERATIONS | STATEFUL | TRIGGERED | {name: one.add for name, one in REFUSED.items()}
_ALL_MODELS = MODELS | STATEFUL_MODELS
_SOURCES = ("source", "bounded")
_PLAIN = (
    "flatten",
    "window",
    "rekey",
    "shift",
    "unfold",
    "tags",
    "reshuffle",
    "first_of",
    "detour",
)
"""Operations whose output is compared only if nothing reads it."""
_WITH_PANES = ("group", "combine", "globally", "distinct", "join", "panes")


class Edits:
    """Changes of pipelines while they are built. This class changes nothing."""

    def rename(self, label: str) -> str:
        """Returns the first part of the names of an operation's transforms."""
        return label

    def extend(self, label: str, stream: Stream) -> Stream:
        """Returns what the readers of an operation read; `label` is the original name."""
        return stream


def build(
    root: Any,
    specs: Mapping[str, Spec],
    folder: str,
    as_batch: bool,
    all_of_it: bool = True,
    edits: Edits = Edits(),
) -> None:
    """Adds pipelines to ``root``.

    Args:
        specs: by the names of the pipelines.
        folder: folder of the outputs.
        as_batch: whether sources are bounded.
        all_of_it: whether operations are added that FnApiRunner can't judge.
        edits: changes of the pipelines that don't change their outputs.
    """
    taps = []
    for name, spec in specs.items():
        left_out = set() if all_of_it else _not_for_the_oracle(spec)
        taps += _build(root, spec, name, folder, as_batch, left_out, edits)
    write_all(taps, folder)


def _build(
    root: Any,
    spec: Spec,
    name: str,
    folder: str,
    as_batch: bool,
    left_out: set[int],
    edits: Edits,
) -> Iterator[Any]:
    streams: dict[int, Stream] = {}
    for number, step in enumerate(spec.steps):
        if number in left_out:
            continue
        original = f"{name}/{number} {step.op}"
        label = edits.rename(original)
        if step.op in _SOURCES:
            made = _ALL[step.op](root, label, as_batch, **step.args)
        else:
            inputs = [attrs.evolve(streams[each], label=label) for each in step.inputs]
            # A pipeline that must be refused has its operation in any case.
            if step.op not in REFUSED and any(each.ended for each in inputs):
                streams[number] = _the_ended(inputs)
                continue
            made = _ALL[step.op](*inputs, **step.args)
        streams[number] = edits.extend(original, made)
        if number in tapped(spec):
            tap = Tap(f"{name}/{number}", folder, _shown(step.op, made.ended))
            yield add_tap(made.pc, label, tap)


def _the_ended(inputs: Sequence[_Collection]) -> _Collection:
    """Returns an input at the end of the global window instead of an operation.

    Runners treat late elements behind this end differently.
    """
    return next(each for each in inputs if each.ended)


def tapped(spec: Spec) -> set[int]:
    """Returns the numbers of the steps with compared output."""
    read = {number for step in spec.steps for number in step.inputs}
    every = enumerate(spec.steps)
    return {number for number, step in every if step.op not in _PLAIN or number not in read}


def _shown(op: str, ended: bool) -> tuple[str, ...]:
    """Returns the attributes of elements that are compared."""
    return (*([] if ended else ["time"]), *(["pane"] if op in _WITH_PANES else []))


def _not_for_the_oracle(spec: Spec) -> set[int]:
    """Returns the steps with timers and triggers and the steps that read their output."""
    found = set[int]()
    for number, step in enumerate(spec.steps):
        if step.op in STATEFUL or step.op in TRIGGERED or found & {*step.inputs}:
            found.add(number)
    return found


def judges(spec: Spec, name: str) -> dict[str, str]:
    """Returns the kind of check of each output of a pipeline."""
    found = {}
    expected, left_out = modelled(spec, name), _not_for_the_oracle(spec)
    for number in tapped(spec):
        output = f"{name}/{number}"
        if spec.steps[number].op in INVARIANT:
            found[output] = BY_INVARIANTS
        elif output not in expected:
            found[output] = BY_NOTHING
        else:
            found[output] = BY_MODEL if number in left_out else BY_BATCH
    return found


def modelled(spec: Spec, name: str) -> Outputs:
    """Returns the model's output of a pipeline without late elements."""
    collections: dict[int, Rows] = {}
    outputs: Outputs = {}
    for number, step in enumerate(spec.steps):
        if step.op in TRIGGERED:
            continue
        inputs = [collections[each] for each in step.inputs]
        if any(each.ended for each in inputs):
            collections[number] = _the_ended(inputs)
            continue
        made = _ALL_MODELS[step.op](*inputs, **step.args)
        collections[number] = made
        if number in tapped(spec):
            shown = _shown(step.op, made.ended)
            outputs[f"{name}/{number}"] = Counter(_texts(made, shown))
    return outputs


def _texts(collection: Rows, shown: tuple[str, ...]) -> Iterator[str]:
    for row in collection.rows:
        span = "global" if row.span is None else f"{row.span[0]}-{row.span[1]}"
        time = row.time if "time" in shown else None
        yield row_text((row.key, row.value), time, span, ON_TIME if "pane" in shown else None)
