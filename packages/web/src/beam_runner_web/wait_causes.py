"""Sentences about what a job waits for: a table says of each kind of wait what becomes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import attrs
from beam_runner_model.observation import Execution
from beam_runner_model.rendering import render, render_waits
from beam_runner_model.waits import Wait, WaitKind

from .facts import Cause, Facts, Weight
from .figures import StageFigures
from .standing import OLD_SECONDS, stands
from .texts import duration, one_line

_LITTLE_BYTES = 1_000
_LONG_SECONDS = 300.0
_LONGEST = 600
KEEPS = "The job keeps all that is committed, and goes on by itself when the cause is gone"
_PLACES = (
    "A place is a core of the cluster, or of this machine. Other jobs may hold them all, or no "
    "executor has come yet"
)
_LINE = (
    "py-spy dump --pid {wait.pid} on {wait.host} shows the line. If that never ends, end the job"
)
_PRINTS = "What it prints is in the job's log"


def _is_never(facts: Facts, execution: Execution, wait: Wait) -> bool:
    return False


def _is_always(facts: Facts, execution: Execution, wait: Wait) -> bool:
    return True


def _is_short(facts: Facts, execution: Execution, wait: Wait) -> bool:
    return wait.seconds < OLD_SECONDS


def _bundles_are_told(facts: Facts, execution: Execution, wait: Wait) -> bool:
    # A source of a stream may run a bundle in which it waits: that is nothing to report.
    return any(map(stands, execution.bundles)) or (
        facts.snapshot.streaming and bool(execution.bundles)
    )


def _failures_are_told(facts: Facts, execution: Execution, wait: Wait) -> bool:
    return bool(execution.failed)


@attrs.frozen
class _Row:
    """What becomes of waits of one kind.

    Attributes:
        at_once: whether they are told at once; else only when nothing has been committed for some seconds.
        is_told: whether other sentences tell of them already, or nobody wants to know.
        page: where to read more; empty for the stage's place on its page.
        more: what a reader should know besides.
    """

    at_once: bool
    is_told: Callable[[Facts, Execution, Wait], bool] = _is_never
    page: str = ""
    more: str = ""


_TABLE: Mapping[WaitKind, _Row] = {
    WaitKind.NEIGHBOUR: _Row(at_once=True, page="now", more=KEEPS),
    WaitKind.SLOT: _Row(at_once=True, page="now", more=_PLACES),
    WaitKind.SIDE_INPUT: _Row(at_once=True),
    WaitKind.HOLD: _Row(at_once=True),
    WaitKind.PROCESS: _Row(at_once=True, page="now", more=_LINE),
    WaitKind.HARNESS: _Row(at_once=True, is_told=_is_short, page="logs", more=_PRINTS),
    WaitKind.TASKS: _Row(at_once=False, is_told=_bundles_are_told, page="now"),
    WaitKind.BUNDLES: _Row(at_once=False, is_told=_bundles_are_told),
    WaitKind.RETRY: _Row(at_once=False, is_told=_failures_are_told),
    WaitKind.END_OF_INPUT: _Row(at_once=False),
    WaitKind.END_OF_SECTION_INPUT: _Row(at_once=False),
    WaitKind.RESUMPTION: _Row(at_once=False, is_told=_is_always),
    WaitKind.TIMER: _Row(at_once=False, is_told=_is_always),
    WaitKind.WATERMARK: _Row(at_once=False, is_told=_is_always),
    WaitKind.UPSTREAM: _Row(at_once=False, is_told=_is_always),
    WaitKind.OTHER: _Row(at_once=False),
}


def waits_of_job(facts: Facts) -> Iterator[Cause]:
    """What the whole job waits for: a neighbour, or places on the cluster."""
    execution = facts.snapshot.execution
    if execution is not None:
        for wait in _news(facts, execution):
            if not wait.stage and _TABLE[wait.kind].at_once:
                yield _cause(facts, execution, wait)


def waits_of_stages(facts: Facts) -> Iterator[Cause]:
    """What stages wait for; of what may pass by itself only if nothing moves."""
    execution = facts.snapshot.execution
    if execution is None:
        return
    news = _news(facts, execution)
    at_once = [wait for wait in news if _TABLE[wait.kind].at_once]
    causes = [_cause(facts, execution, one) for one in at_once if one.stage]
    yield from {cause.text: cause for cause in causes}.values()
    if news and not at_once and execution.still:
        said = render_waits(news, now=execution.now)
        text = f"Nothing has been committed for {duration(execution.still)}: {said}"
        row = _TABLE[news[0].kind]
        yield Cause(news[0].kind, Weight.WARN, one_line(text, _LONGEST), row.page or "logs")


def _news(facts: Facts, execution: Execution) -> list[Wait]:
    """The waits of which no other sentence tells."""
    return [
        wait
        for wait in execution.waits
        if not _TABLE[wait.kind].is_told(facts, execution, wait)
        and not _is_turn_in_composite(facts, wait)
    ]


def _cause(facts: Facts, execution: Execution, wait: Wait) -> Cause:
    """The sentence about a wait."""
    row, tree, stage = _TABLE[wait.kind], facts.snapshot.tree, _stage(facts, wait)
    step = _step(facts, wait, stage)
    who = tree.steps[step].name if step else ""
    if wait.kind is WaitKind.PROCESS:
        # It has not told of the times of its steps either.
        found = tuple(one for one in map(tree.find, wait.steps) if one)
        who = facts.any_of(stage.steps if stage and stage.steps else found)
    text = render(wait, who=who, now=execution.now)
    page = row.page or ("" if stage is None else facts.card(stage))
    more = row.more.format(wait=wait)
    if wait.kind is WaitKind.SLOT:
        more += f": see {execution.interface}" if execution.interface else "."
    return Cause(wait.kind, _weight(wait, stage), one_line(text, _LONGEST), page, step, more)


def _weight(wait: Wait, stage: StageFigures | None) -> Weight:
    if wait.kind is WaitKind.NEIGHBOUR:
        return weight_of_outage(wait.seconds)
    # A step to which next to nothing has come yet may only wait for its turn.
    return Weight.NOTE if wait.stage and _is_little(stage) else Weight.WARN


def weight_of_outage(seconds: float) -> Weight:
    """How bad it is that a neighbour has been unavailable for so long."""
    return Weight.BAD if seconds >= _LONG_SECONDS else Weight.WARN


def _is_little(stage: StageFigures | None) -> bool:
    backlog = None if stage is None else stage.backlog_bytes
    return backlog is not None and backlog < _LITTLE_BYTES


def _step(facts: Facts, wait: Wait, stage: StageFigures | None) -> str:
    """The id of the step that waits; empty if no step of the pipeline does."""
    if len(wait.steps) == 1 and (found := facts.snapshot.tree.find(wait.steps[0])):
        return found
    return "" if stage is None else facts.step(stage) or next(iter(stage.steps), "")


def _stage(facts: Facts, wait: Wait) -> StageFigures | None:
    return next((one for one in facts.snapshot.figures.stages if one.id == wait.stage), None)


def _is_turn_in_composite(facts: Facts, wait: Wait) -> bool:
    """Whether a step to which little has come waits for a part of the same composite.

    Combining globally waits for its default in this way, and goes on by itself.
    """
    tree, stage = facts.snapshot.tree, _stage(facts, wait)
    step = _step(facts, wait, stage)
    parent = tree.steps[step].parent if step else ""
    givers = [tree.find(giver) for giver in wait.givers]
    return bool(
        parent
        and givers
        and _is_little(stage)
        and all(giver and tree.steps[giver].parent == parent for giver in givers)
    )
