"""Sentences about bundles that failed and run again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from beam_runner_jobservices.figures.texts import format_count, truncate_to_line
from beam_runner_model.failures import FailedBundle, FailureCause
from beam_runner_model.rendering import render_record
from beam_runner_model.waits import WaitKind

from .facts import Cause, CauseKind, CauseSeverity, JobFacts
from .wait_causes import KEEPS, choose_outage_severity

_OFTEN = 4
"""The number of failed attempts after which a bundle counts as more than a temporary problem."""
_MOST_STEPS = 3
_LONGEST = 600
_OTHERS = (
    "Other keys and steps continue; windows that wait for its watermark don't"
    " fire until a retry succeeds"
)


def list_failing_steps(facts: JobFacts) -> frozenset[str]:
    """Returns the steps of failed bundles, except bundles that wait for an unavailable service."""
    execution = facts.snapshot.execution
    failed = () if execution is None else execution.failed
    return frozenset(
        _find_failed_step(facts, one) for one in failed if one.kind is not FailureCause.UNAVAILABLE
    )


def _find_failed_bundles(facts: JobFacts) -> Iterator[Cause]:
    execution = facts.snapshot.execution
    groups: dict[tuple[str, str], list[FailedBundle]] = defaultdict(list)
    for one in () if execution is None else execution.failed:
        groups[_find_failed_step(facts, one), one.neighbour].append(one)
    for (step, neighbour), found in list(groups.items())[:_MOST_STEPS]:
        worst = max(found, key=lambda one: (one.attempts, one.away))
        text = truncate_to_line(
            render_record(worst, who=_get_failed_step_label(facts, step, worst)), _LONGEST
        )
        if len(found) > 1:
            text += f" (one of {format_count(len(found))} bundles)"
        if neighbour:
            weight = choose_outage_severity(worst.away)
            yield Cause(WaitKind.NEIGHBOUR, weight, text, "now", step, more=KEEPS)
        else:
            weight = CauseSeverity.BAD if worst.attempts >= _OFTEN else CauseSeverity.WARN
            yield Cause(CauseKind.FAILED_BUNDLE, weight, text, "now", step, more=_OTHERS)


def _find_failed_step(facts: JobFacts, one: FailedBundle) -> str:
    """Returns the id of the step in which a bundle failed; empty if the step is unknown."""
    tree = facts.snapshot.tree
    if one.step and (found := tree.find_step(one.step)):
        return found
    return facts.find_slowest_step([step for step in map(tree.find_step, one.steps) if step])


def _get_failed_step_label(facts: JobFacts, step: str, one: FailedBundle) -> str:
    return facts.snapshot.tree.steps[step].name if step else one.step or " + ".join(one.steps)


def _find_quarantined_elements(facts: JobFacts) -> Iterator[Cause]:
    """Yields sentences about stages whose failing elements are in quarantine files, and so missing
    from the results.
    """
    for stage in facts.snapshot.figures.stages:
        if stage.quarantined:
            count = stage.quarantined
            elements = "1 element is" if count == 1 else f"{format_count(count)} elements are"
            text = f"{elements} in quarantine, because {facts.get_stage_label(stage)} always fails for them"
            more = "The results don't contain them; the folder of --beam_spark_quarantine does"
            link = facts.make_card_link(stage)
            step = stage.steps[0] if stage.steps else ""
            yield Cause(CauseKind.QUARANTINED, CauseSeverity.WARN, text, link, step, more)


RETRY_RULES: tuple[Callable[[JobFacts], Iterator[Cause]], ...] = (
    _find_failed_bundles,
    _find_quarantined_elements,
)
