"""Text of the results of shadow runs, the same in messages, in commands and on web pages."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from beam_runner_model.shadows import ShadowReport, StepComparison, StepOutcome


def render_shadow_report(report: ShadowReport) -> Iterator[str]:
    """Yields a line for each step, and lines about errors."""
    for step in report.steps:
        yield f"{step.outcome.value}: {render_step_comparison(step)}"
    if report.old_failure:
        yield f"the running program failed in the shadow run: {report.old_failure}"
    if report.new_failure:
        yield f"the new program failed in the shadow run: {report.new_failure}"


def render_step_comparison(step: StepComparison) -> str:
    """Returns the text about a compared step, without the final period."""
    name = f"the input of {step.step!r}"
    if step.before:
        name = f"{name} (before: {step.before!r})"
    match step.outcome:
        case StepOutcome.EQUAL:
            return f"{name} is the same in both programs: {step.old_elements} elements"
        case StepOutcome.DIFFERENT:
            numbers = f"{step.old_elements} elements before and {step.new_elements} now"
            return f"{name} differs from {_render_time(step.first_difference)} on: {numbers}"
        case StepOutcome.EMPTY:
            return f"{name} has no elements before the watermark, so nothing was compared"
        case StepOutcome.ADDED:
            return f"{name} isn't compared, because only the new program has the step"
        case StepOutcome.REMOVED:
            return f"{name} isn't compared, because only the running program has the step"
        case _:
            return f"{name}: this version doesn't know the outcome"


def _render_time(milliseconds: int | None) -> str:
    """Returns an event time as text. Python's dates end long before Beam's event times."""
    try:
        found = datetime.datetime.fromtimestamp((milliseconds or 0) / 1000, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds} ms"
    return found.strftime("%Y-%m-%d %H:%M:%S UTC")
