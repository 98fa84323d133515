"""Compares the output of stream jobs with the batch, the model and the invariants of panes."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
import pane_invariants
from campaigns import Results, difference
from graphs import INVARIANT, modelled, tapped
from partitions import Partition, elements, truncated
from spec import Spec, Step
from stream_jobs import Outcome


@attrs.define
class Tally(Results):
    """Results of comparisons.

    Attributes:
        branches: number of outputs, by kind of check.
        drained: number of pipelines with sources truncated by a drain.
    """

    branches: Counter[str] = attrs.field(factory=Counter)
    drained: int = 0


def judge(name: str, spec: Spec, outcome: Outcome, steady: bool, tally: Tally) -> Iterator[str]:
    """Returns the differences of the outputs of a pipeline.

    Args:
        steady: whether no process was killed, so that each attempt became a result.
        tally: tally to which the outputs are added.
    """
    given = given_by(name, spec, outcome) if outcome.drained else spec
    if isinstance(given, str):
        yield given
        return
    expected = modelled(given, name)
    told = difference(expected, outcome.rows, expected)
    if told:
        yield f"the model (-) and the stream (+) differ in {told}"
    tally.rows += sum(rows.total() for rows in expected.values())
    for number, step in enumerate(given.steps):
        if step.op in INVARIANT:
            rows = outcome.rows.get(f"{name}/{number}", Counter())
            tally.rows += rows.total()
            yield from (f"{name}/{number}: {text}" for text in _broken(given, number, rows))
    if steady:
        names = [f"{name}/{number}" for number in tapped(spec)]
        told = difference(outcome.rows, outcome.attempts, names)
        if told:
            yield f"results (-) and attempts (+) differ without a failure in {told}"


def given_by(name: str, spec: Spec, outcome: Outcome) -> Spec | str:
    """Returns the pipeline with the elements that its sources emitted before a drain; or the error."""
    steps = []
    for number, step in enumerate(spec.steps):
        if step.op == "source":
            rows = outcome.rows.get(f"{name}/{number}", Counter())
            values = {ast.literal_eval(row.partition(" [")[0])[1] for row in rows}
            cut = [truncated(each, values) for each in step.args["partitions"]]
            for partition, part in zip(step.args["partitions"], cut, strict=True):
                if part is None:
                    return f"{name}/{number}: not a prefix: {_gaps(partition, values)}"
            step = Step(step.op, (), {"partitions": tuple(cut)})
        steps.append(step)
    return Spec(tuple(steps))


def _gaps(partition: Partition, values: set[int]) -> str:
    return "".join("x" if action[2] in values else "." for action in elements(partition))


def _broken(spec: Spec, number: int, rows: Counter[str]) -> Iterator[str]:
    """Returns the invariants that an output with late elements breaks."""
    step = spec.steps[number]
    given = pane_invariants.given_by(_partitions(spec, number))
    panes = pane_invariants.panes_of(rows)
    fn, lateness = step.args["fn"], step.args["lateness"]
    if step.op == "panes":
        accumulating = step.args["accumulating"]
        yield from pane_invariants.broken_sequences(panes)
        yield from pane_invariants.broken_values(panes, given, fn, accumulating)
        yield from pane_invariants.late_panes_with_others(panes, given, accumulating)
        if not _goes_on(step.args["trigger"]):
            lateness = 0
    else:
        yield from pane_invariants.broken_values(panes, given, fn, accumulating=False)
    dropped = pane_invariants.missing(panes, given, fn)
    yield from pane_invariants.wrongly_dropped(dropped, given, lateness)


def _goes_on(trigger: tuple[Any, ...]) -> bool:
    """Returns whether a trigger fires for elements behind the end of the window."""
    return trigger[0] != "watermark" or trigger[2] is not None


def missing(name: str, spec: Spec, outcome: Outcome) -> int:
    """Returns the number of elements that are missing in the outputs with late elements."""
    given = given_by(name, spec, outcome) if outcome.drained else spec
    total = 0
    for number, step in enumerate(spec.steps):
        if step.op in INVARIANT and isinstance(given, Spec):
            panes = pane_invariants.panes_of(outcome.rows.get(f"{name}/{number}", Counter()))
            of_sources = pane_invariants.given_by(_partitions(given, number))
            found = pane_invariants.missing(panes, of_sources, step.args["fn"])
            total += found.total()
    return total


def _partitions(spec: Spec, number: int) -> Iterator[Partition]:
    """Returns the partitions of all sources that a step reads, through others or not."""
    step = spec.steps[number]
    if step.op == "source":
        yield from step.args["partitions"]
    for each in step.inputs:
        yield from _partitions(spec, each)


def dropped_differ(specs: Mapping[str, Spec], outcome: Outcome) -> str | None:
    """Returns the difference between the job's count of dropped elements and the missing elements."""
    expected = sum(missing(name, spec, outcome) for name, spec in specs.items())
    if expected == outcome.dropped:
        return None
    return f"{expected} elements are missing, and {outcome.dropped} were counted as dropped"
