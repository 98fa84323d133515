"""Report of a shadow run: comparison of the elements that reached the replaced steps of two programs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import attrs
from beam_runner_model.shadows import (
    ShadowReport,
    StepComparison,
    StepOutcome,
    StepTotals,
    compare_totals,
)
from beam_runner_planner.updates.names import StepMatch

_ORDER = tuple(StepOutcome)


@attrs.frozen
class ProgramResult:
    """Result of a program in a shadow run.

    Attributes:
        totals: elements that reached the replaced steps, by full name.
        failure: error that ended the program, or for which work of the program waits; empty without
            an error.
    """

    totals: Mapping[str, StepTotals]
    failure: str = ""


def make_shadow_report(
    old: ProgramResult,
    new: ProgramResult,
    old_steps: Collection[str],
    new_steps: Collection[str],
    mapping: Mapping[str, str],
    seconds: float,
) -> ShadowReport:
    """Compares the results of both programs, step by step.

    Args:
        old: result of the running program.
        new: result of the new program.
        old_steps: replaced steps of the running program.
        new_steps: replaced steps of the new program.
        mapping: new names of steps by their old names.
        seconds: duration of the run.
    """
    names = StepMatch(old_steps, new_steps, mapping)
    pairs = {step: names.translate_step(step) for step in old_steps}
    found = []
    for before, step in pairs.items():
        if step is None:
            found.append(StepComparison(StepOutcome.REMOVED, before))
        else:
            found.append(compare_totals(step, before, old.totals[before], new.totals[step]))
    continued = set(pairs.values())
    found += [StepComparison(StepOutcome.ADDED, one) for one in new_steps if one not in continued]
    found.sort(
        key=lambda one: (one.outcome is not StepOutcome.DIFFERENT, _ORDER.index(one.outcome))
    )
    return ShadowReport(seconds, tuple(found), old.failure, new.failure)
