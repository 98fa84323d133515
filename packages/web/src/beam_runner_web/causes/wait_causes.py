"""Sentences about the reasons for which parts of a job wait. A table contains one rule for each kind of wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import attrs
from beam_runner_jobservices.figures.step_metrics import StageFigures
from beam_runner_jobservices.figures.texts import format_duration, truncate_to_line
from beam_runner_model.observation import Execution
from beam_runner_model.rendering import render_record, render_waits
from beam_runner_model.waits import Wait, WaitKind

from beam_runner_web.watch.stalled_stacks import OLD_SECONDS, is_bundle_stalled

from .facts import Cause, CauseSeverity, JobFacts

_LITTLE_BYTES = 1_000
_LONG_SECONDS = 300.0
_LONGEST = 600
KEEPS = "The job keeps all committed work, and continues automatically when the cause is gone"
_PLACES = (
    "A slot is a core of the cluster, or of this machine. Other jobs may use all"
    " slots, or no executor has started yet"
)
_LINE = (
    "py-spy dump --pid {wait.pid} on {wait.host} shows the current line. If this code"
    " never returns, cancel the job"
)
_PRINTS = "The output of the process is in the job's log"


def _is_never_explained(facts: JobFacts, execution: Execution, wait: Wait) -> bool:
    return False


def _is_always_explained(facts: JobFacts, execution: Execution, wait: Wait) -> bool:
    return True


def _is_short_wait(facts: JobFacts, execution: Execution, wait: Wait) -> bool:
    return wait.seconds < OLD_SECONDS


def _are_bundles_reported(facts: JobFacts, execution: Execution, wait: Wait) -> bool:
    # Don't report a stream's running bundle, because its source may wait for data.
    return any(map(is_bundle_stalled, execution.bundles)) or (
        facts.snapshot.streaming and bool(execution.bundles)
    )


def _are_stalled_bundles_reported(facts: JobFacts, execution: Execution, wait: Wait) -> bool:
    return any(map(is_bundle_stalled, execution.bundles))


def _are_failures_reported(facts: JobFacts, execution: Execution, wait: Wait) -> bool:
    return bool(execution.failed)


@attrs.frozen
class _WaitRule:
    """Rule that decides whether and how one kind of wait is reported to the user.

    Attributes:
        at_once: whether to report the wait immediately. If not, the wait is reported only if the
            job has committed nothing for some seconds.
        is_explained_elsewhere: function that returns whether to omit the wait, because another sentence explains
            it or it's normal.
        page: the page with details; empty for the stage's card on the page of stages.
        more: an additional explanation.
    """

    at_once: bool
    is_explained_elsewhere: Callable[[JobFacts, Execution, Wait], bool] = _is_never_explained
    page: str = ""
    more: str = ""


_TABLE: Mapping[WaitKind, _WaitRule] = {
    WaitKind.NEIGHBOUR: _WaitRule(at_once=True, page="now", more=KEEPS),
    WaitKind.SLOT: _WaitRule(at_once=True, page="now", more=_PLACES),
    WaitKind.SIDE_INPUT: _WaitRule(at_once=True),
    WaitKind.HOLD: _WaitRule(at_once=True),
    WaitKind.PROCESS: _WaitRule(at_once=True, page="now", more=_LINE),
    WaitKind.HARNESS: _WaitRule(
        at_once=True, is_explained_elsewhere=_is_short_wait, page="logs", more=_PRINTS
    ),
    WaitKind.TASKS: _WaitRule(
        at_once=False, is_explained_elsewhere=_are_bundles_reported, page="now"
    ),
    WaitKind.BUNDLES: _WaitRule(at_once=False, is_explained_elsewhere=_are_bundles_reported),
    WaitKind.RETRY: _WaitRule(at_once=False, is_explained_elsewhere=_are_failures_reported),
    WaitKind.END_OF_INPUT: _WaitRule(
        at_once=False, is_explained_elsewhere=_are_stalled_bundles_reported
    ),
    WaitKind.END_OF_SECTION_INPUT: _WaitRule(
        at_once=False, is_explained_elsewhere=_are_stalled_bundles_reported
    ),
    WaitKind.RESUMPTION: _WaitRule(at_once=False, is_explained_elsewhere=_is_always_explained),
    WaitKind.TIMER: _WaitRule(at_once=False, is_explained_elsewhere=_is_always_explained),
    WaitKind.WATERMARK: _WaitRule(at_once=False, is_explained_elsewhere=_is_always_explained),
    WaitKind.UPSTREAM: _WaitRule(at_once=False, is_explained_elsewhere=_is_always_explained),
    WaitKind.OTHER: _WaitRule(at_once=False),
}

_WAITS_FOR_DATA = (WaitKind.SIDE_INPUT, WaitKind.HOLD)
"""The waits that are minor for a step with little input. A silent process is a problem for any step."""


def find_job_waits(facts: JobFacts) -> Iterator[Cause]:
    """Yields sentences about waits of the whole job: for an unavailable service, or for slots of the cluster."""
    execution = facts.snapshot.execution
    if execution is not None:
        for wait in _select_unexplained_waits(facts, execution):
            if not wait.stage and _TABLE[wait.kind].at_once:
                yield _make_wait_cause(facts, execution, wait)


def find_stage_waits(facts: JobFacts) -> Iterator[Cause]:
    """Yields sentences about waits of stages. Omits waits that can end by themselves while the job makes progress."""
    execution = facts.snapshot.execution
    if execution is None:
        return
    news = _select_unexplained_waits(facts, execution)
    at_once = [wait for wait in news if _TABLE[wait.kind].at_once]
    causes = [(one, _make_wait_cause(facts, execution, one)) for one in at_once]
    yield from {cause.text: cause for wait, cause in causes if wait.stage}.values()
    # A step with little input can wait for the same reason as the rest of the job. Therefore, such
    # a note doesn't explain why the job stands still.
    is_explained = any(cause.weight <= CauseSeverity.WARN for _, cause in causes)
    others = [wait for wait in news if wait not in at_once]
    if others and execution.still and not is_explained:
        said = render_waits(others, now=execution.now)
        text = f"The job has committed nothing for {format_duration(execution.still)}: {said}"
        row = _TABLE[others[0].kind]
        yield Cause(
            others[0].kind, CauseSeverity.WARN, truncate_to_line(text, _LONGEST), row.page or "logs"
        )


def _select_unexplained_waits(facts: JobFacts, execution: Execution) -> list[Wait]:
    """Returns the waits that other sentences don't explain."""
    return [
        wait
        for wait in execution.waits
        if not _TABLE[wait.kind].is_explained_elsewhere(facts, execution, wait)
        and not _waits_for_sibling_step(facts, wait)
    ]


def _make_wait_cause(facts: JobFacts, execution: Execution, wait: Wait) -> Cause:
    """Returns the sentence about a wait."""
    row, tree, stage = _TABLE[wait.kind], facts.snapshot.tree, _find_stage(facts, wait)
    step = _find_waiting_step(facts, wait, stage)
    who = tree.steps[step].name if step else ""
    if wait.kind is WaitKind.PROCESS:
        # Use all steps of the bundle, because the stage hasn't reported the times of its steps yet.
        found = tuple(one for one in map(tree.find_step, wait.steps) if one)
        who = facts.describe_any_step(stage.steps if stage and stage.steps else found)
    text = render_record(wait, who=who, now=execution.now)
    page = row.page or ("" if stage is None else facts.make_card_link(stage))
    more = row.more.format(wait=wait)
    if wait.kind is WaitKind.SLOT:
        more += f": see {execution.interface}" if execution.interface else "."
    return Cause(
        wait.kind, _choose_severity(wait, stage), truncate_to_line(text, _LONGEST), page, step, more
    )


def _choose_severity(wait: Wait, stage: StageFigures | None) -> CauseSeverity:
    if wait.kind is WaitKind.NEIGHBOUR:
        return choose_outage_severity(wait.seconds)
    # A step with almost no input so far possibly only waits for a free worker.
    is_minor = wait.kind in _WAITS_FOR_DATA and _has_little_input(stage)
    return CauseSeverity.NOTE if is_minor else CauseSeverity.WARN


def choose_outage_severity(seconds: float) -> CauseSeverity:
    """Returns the severity of an outage of an external service, by the duration of the outage in
    seconds.
    """
    return CauseSeverity.BAD if seconds >= _LONG_SECONDS else CauseSeverity.WARN


def _has_little_input(stage: StageFigures | None) -> bool:
    backlog = None if stage is None else stage.waiting_bytes
    return backlog is not None and backlog < _LITTLE_BYTES


def _find_waiting_step(facts: JobFacts, wait: Wait, stage: StageFigures | None) -> str:
    """Returns the id of the waiting step; empty if no step of the pipeline waits."""
    if len(wait.steps) == 1 and (found := facts.snapshot.tree.find_step(wait.steps[0])):
        return found
    return "" if stage is None else facts.find_main_step(stage) or next(iter(stage.steps), "")


def _find_stage(facts: JobFacts, wait: Wait) -> StageFigures | None:
    return next((one for one in facts.snapshot.figures.stages if one.id == wait.stage), None)


def _waits_for_sibling_step(facts: JobFacts, wait: Wait) -> bool:
    """Returns whether a step with little input waits for another part of the same composite.

    A global combine waits for its default value in this way. Such a wait ends without help.
    """
    tree, stage = facts.snapshot.tree, _find_stage(facts, wait)
    step = _find_waiting_step(facts, wait, stage)
    parent = tree.steps[step].parent if step else ""
    givers = [tree.find_step(giver) for giver in wait.givers]
    return bool(
        parent
        and givers
        and _has_little_input(stage)
        and all(giver and tree.steps[giver].parent == parent for giver in givers)
    )
