"""Findings about the input of a stage that an update keeps: the coders, the windowing and the user
code that reads the input.
"""

from __future__ import annotations

from collections.abc import Iterator

from beam_runner_model.updates import Finding, FindingReason, FindingSubject

from beam_runner_planner.updates.names import StepMatch
from beam_runner_planner.updates.pairs import StagePair
from beam_runner_planner.updates.strategies import compare_strategies

_MOST_NAMED = 3


def compare_stage_input(pair: StagePair) -> Iterator[Finding]:
    """Yields the findings about the input of a stage: elements that wait, and groups."""
    old, new, contents = pair.old, pair.new, pair.contents
    if old.plan.splittable != new.plan.splittable:
        kinds = [_describe_input_kind(view.plan.splittable) for view in (old, new)]
        yield pair.create_change_finding(
            FindingReason.KIND, has_data=not contents.is_empty, before=kinds[0], after=kinds[1]
        )
    if old.is_source:
        return
    if old.key_coder is not None and new.key_coder is not None:
        yield from pair.compare_part_coders(
            old.key_coder,
            new.key_coder,
            reason=FindingReason.KEY_CODER,
            has_data=not contents.is_empty,
        )
    yield from pair.compare_part_coders(
        old.value_coder,
        new.value_coder,
        has_data=bool(contents.elements) or _contains_input_elements(pair),
    )
    yield from compare_strategies(pair)


def _contains_input_elements(pair: StagePair) -> bool:
    """Returns whether the state of a stage contains elements of its input."""
    stateful = pair.old.plan.stateful
    return pair.contents.has_state and (stateful is None or stateful.time_sorted)


def _describe_input_kind(splittable: bool) -> str:
    return "splittable DoFn" if splittable else "redistribution"


def compare_stage_code(pair: StagePair, names: StepMatch) -> Iterator[Finding]:
    """Yields a finding if code that reads the data of the old stage changed.

    The runner can't see what the code does. Even equal code can have different bytes, for example in
    another version of Python.
    """
    if not pair.old.is_source:
        if pair.old.head_code != pair.new.head_code:
            yield pair.create_kept_finding(FindingReason.CODE_CHANGED)
    elif pair.contents.complete:
        changed = _list_changed_steps(pair, names)
        if changed:
            more = ["..."] if len(changed) > _MOST_NAMED else []
            steps = ", ".join([*changed[:_MOST_NAMED], *more])
            yield pair.create_kept_finding(
                FindingReason.CODE_CHANGED, FindingSubject.SOURCE, after=steps
            )


def _list_changed_steps(pair: StagePair, names: StepMatch) -> list[str]:
    """Returns the steps of the new stage that are new or whose code changed."""
    old = {names.translate_step(step): code for step, code in pair.old.list_code().items()}
    return sorted(step for step, code in pair.new.list_code().items() if old.get(step) != code)
