"""Sentences about bundles that failed and run again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from beam_runner_jobservices.figures.texts import number, one_line
from beam_runner_model.failures import FailedBundle, FailureCause
from beam_runner_model.rendering import render
from beam_runner_model.waits import WaitKind

from .facts import Cause, CauseKind, Facts, Weight
from .wait_causes import KEEPS, weight_of_outage

_OFTEN = 4
"""The number of failed attempts after which a bundle counts as more than a temporary problem."""
_MOST_STEPS = 3
_LONGEST = 600
_OTHERS = (
    "Other keys and steps continue; windows that wait for its watermark don't"
    " fire until a retry succeeds"
)


def failing_steps(facts: Facts) -> frozenset[str]:
    """Returns the steps that a sentence of this module names as failing."""
    execution = facts.snapshot.execution
    failed = () if execution is None else execution.failed
    return frozenset(
        _step(facts, one) for one in failed if one.kind is not FailureCause.UNAVAILABLE
    )


def _failed_bundles(facts: Facts) -> Iterator[Cause]:
    execution = facts.snapshot.execution
    groups: dict[tuple[str, str], list[FailedBundle]] = defaultdict(list)
    for one in () if execution is None else execution.failed:
        groups[_step(facts, one), one.neighbour].append(one)
    for (step, neighbour), found in list(groups.items())[:_MOST_STEPS]:
        worst = max(found, key=lambda one: (one.attempts, one.away))
        text = one_line(render(worst, who=_name(facts, step, worst)), _LONGEST)
        if len(found) > 1:
            text += f" (one of {number(len(found))} bundles)"
        if neighbour:
            weight = weight_of_outage(worst.away)
            yield Cause(WaitKind.NEIGHBOUR, weight, text, "now", step, more=KEEPS)
        else:
            weight = Weight.BAD if worst.attempts >= _OFTEN else Weight.WARN
            yield Cause(CauseKind.FAILED_BUNDLE, weight, text, "now", step, more=_OTHERS)


def _step(facts: Facts, one: FailedBundle) -> str:
    """Returns the step in which a bundle failed; empty if the job's server doesn't know it."""
    tree = facts.snapshot.tree
    if one.step and (found := tree.find(one.step)):
        return found
    return facts.hottest([step for step in map(tree.find, one.steps) if step])


def _name(facts: Facts, step: str, one: FailedBundle) -> str:
    return facts.snapshot.tree.steps[step].name if step else one.step or " + ".join(one.steps)


RETRY_RULES: tuple[Callable[[Facts], Iterator[Cause]], ...] = (_failed_bundles,)
