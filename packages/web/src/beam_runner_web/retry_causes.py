"""Sentences about bundles that failed and run again, and about neighbours that the job waits for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from beam_runner_jobservices import UNAVAILABLE, USER_CODE, FailedBundle

from .facts import Cause, Facts, Weight
from .texts import duration, number, one_line

_OFTEN = 4
"""After so many failed attempts a bundle is no passing trouble."""
_LONG_SECONDS = 300.0
_MOST_STEPS = 3
_KEEPS = "The job keeps all that is committed, and goes on by itself when the cause is gone"
_OTHERS = "Other keys and steps go on; windows that wait for its watermark don't fire meanwhile"


def failing_steps(facts: Facts) -> frozenset[str]:
    """The steps of which a sentence here says that they fail."""
    execution = facts.snapshot.execution
    failed = () if execution is None else execution.failed
    return frozenset(_step(facts, one) for one in failed if one.kind != UNAVAILABLE)


def _neighbours(facts: Facts) -> Iterator[Cause]:
    execution = facts.snapshot.execution
    for one in () if execution is None else execution.neighbours:
        text = (
            f"The job waits for {one.neighbour}, which has been unavailable for {duration(one.away)}:"
            f" {one_line(one.reason, 300)}; the next try is in {duration(one.next_in)}"
        )
        yield Cause(_weight(one.away), text, "now", more=_KEEPS)


def _failed_bundles(facts: Facts) -> Iterator[Cause]:
    execution = facts.snapshot.execution
    groups: dict[tuple[str, str], list[FailedBundle]] = defaultdict(list)
    for one in () if execution is None else execution.failed:
        groups[_step(facts, one), one.neighbour].append(one)
    for (step, neighbour), found in list(groups.items())[:_MOST_STEPS]:
        if neighbour:
            yield _waiting(facts, step, found)
        else:
            yield _failing(facts, step, found)


def _failing(facts: Facts, step: str, found: list[FailedBundle]) -> Cause:
    worst = max(found, key=lambda one: one.attempts)
    attempts = "once" if worst.attempts == 1 else f"{number(worst.attempts)} times"
    which = "a bundle" if len(found) == 1 else f"one of {number(len(found))} bundles"
    where = "" if worst.kind == USER_CODE else " from outside of user code"
    element = f", at the element {one_line(worst.element, 200)}" if worst.element else ""
    text = (
        f"{_name(facts, step, worst)}: {which} failed {attempts}{where}: {one_line(worst.error, 300)}"
        f"{element}; {_next(worst)}"
    )
    weight = Weight.BAD if worst.attempts >= _OFTEN else Weight.WARN
    return Cause(weight, text, "now", step, more=_OTHERS)


def _waiting(facts: Facts, step: str, found: list[FailedBundle]) -> Cause:
    worst = max(found, key=lambda one: one.away)
    text = (
        f"{_name(facts, step, worst)} waits for {worst.neighbour}, which has been unavailable for"
        f" {duration(worst.away)}: {one_line(worst.error, 300)}; {_next(worst)}"
    )
    return Cause(_weight(worst.away), text, "now", step, more=_KEEPS)


def _next(one: FailedBundle) -> str:
    if one.next_in is None:
        return "another attempt runs now"
    return f"the next attempt begins in {duration(one.next_in)}"


def _weight(away: float) -> Weight:
    return Weight.BAD if away >= _LONG_SECONDS else Weight.WARN


def _step(facts: Facts, one: FailedBundle) -> str:
    """The step in which a bundle failed; empty if the job's server doesn't know it."""
    tree = facts.snapshot.tree
    if one.step and (found := tree.find(one.step)):
        return found
    return facts.hottest([step for step in map(tree.find, one.steps) if step])


def _name(facts: Facts, step: str, one: FailedBundle) -> str:
    return facts.snapshot.tree.steps[step].name if step else one.step or " + ".join(one.steps)


RETRY_RULES: tuple[Callable[[Facts], Iterator[Cause]], ...] = (_neighbours, _failed_bundles)
