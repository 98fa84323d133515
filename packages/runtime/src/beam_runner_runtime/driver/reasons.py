"""Why stages wait, in sentences for who runs the job: full names of transforms, and nothing internal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from beam_runner_engine.scheduler import Wait, WaitFor
from beam_runner_planner.plan import JobPlan

_MOST_OF_A_STAGE = 3


def reasons(waits: Iterable[Wait], plan: JobPlan) -> Mapping[str, tuple[str, ...]]:
    """By stage, what it waits for that is not simply the stages before it, time, or its own work."""
    found: dict[str, dict[str, None]] = {}
    for wait in waits:
        told = found.setdefault(wait.stage, {})
        if len(told) < _MOST_OF_A_STAGE and (sentence := _sentence(wait, plan)):
            told[sentence] = None
    return {stage: tuple(told) for stage, told in found.items() if told}


def _sentence(wait: Wait, plan: JobPlan) -> str:
    if wait.what is WaitFor.SIDE_INPUT:
        return _of_side_input(wait, plan)
    if wait.what is WaitFor.HOLD:
        return f"{plan.stages[wait.stage].spec.title} {wait.why}"
    return ""


def _of_side_input(wait: Wait, plan: JobPlan) -> str:
    use = next(
        (one for one in plan.stages[wait.stage].side_inputs if one.name == wait.side_input), None
    )
    if use is None:
        return f"stage {wait.stage!r} {wait.why}"
    writers = [
        stage.spec.name.rpartition(" + ")[2]
        for stage in plan.stages.values()
        if use.buffer_id in stage.outputs.values()
    ]
    given = f", which {' and '.join(writers)} has not given yet" if writers else ""
    return f"{use.transform_id} waits for its side input{given}"
