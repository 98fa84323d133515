"""Makes a pipeline smaller for as long as it still differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
from spec import Spec, Step


def minimised(
    spec: Spec,
    differs: Callable[[Spec], str | None],
    tries: int,
    simpler: Callable[[Step], Iterator[Step]] | None = None,
) -> Spec:
    """Returns the smallest pipeline with a difference that was found within the number of tries.

    Args:
        simpler: function that returns replacements of a step.
    """
    progress = True
    while progress:
        progress = False
        for smaller in _smaller(spec, simpler or _simpler):
            if tries == 0:
                return spec
            tries -= 1
            if differs(smaller) is not None:
                spec, progress = smaller, True
                break
    return spec


def _smaller(spec: Spec, simpler: Callable[[Step], Iterator[Step]]) -> Iterator[Spec]:
    for number in reversed(range(len(spec.steps))):
        smaller = spec.without(number)
        if smaller is not None:
            yield smaller
    for number, step in enumerate(spec.steps):
        for other in simpler(step):
            steps = (*spec.steps[:number], other, *spec.steps[number + 1 :])
            yield Spec(steps)


def _simpler(step: Step) -> Iterator[Step]:
    if step.op == "create":
        values, times = step.args["values"], step.args["times"]
        half = len(values) // 2
        cuts = [slice(half), slice(half, None)] if half else []
        if len(values) <= 8:
            yield from (_without(step, index) for index in range(len(values)))
        for cut in cuts:
            yield _with(step, values=values[cut], times=times and times[cut])
        if times is not None:
            yield _with(step, times=None)
    if len(step.inputs) > 1:
        yield attrs.evolve(step, inputs=step.inputs[:-1])
    plain = {
        "combiner": "end",
        "trigger": "default",
        "accumulating": False,
        "fanout": False,
        "way": "plain",
        "pause": 0,
    }
    for name, value in plain.items():
        if step.args.get(name, value) != value and not (name == "way" and step.op == "batch"):
            yield _with(step, **{name: value})


def _without(step: Step, index: int) -> Step:
    values, times = list(step.args["values"]), step.args["times"]
    del values[index]
    if times is not None:
        times = [*times[:index], *times[index + 1 :]]
    return _with(step, values=values, times=times)


def _with(step: Step, **args: Any) -> Step:
    return attrs.evolve(step, args={**step.args, **args})
