"""Sentences about the reasons why a job failed, is slow or is stuck, worst reason first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from urllib.parse import quote

import attrs
from beam_runner_jobservices.error_log import FailureGroup
from beam_runner_jobservices.figures.texts import (
    format_count,
    format_duration,
    format_percentage,
    format_size,
    truncate_to_line,
)
from beam_runner_model.failures import FailureCause
from beam_runner_model.jobs import JobState

from beam_runner_web.watch.stalled_stacks import is_bundle_stalled
from beam_runner_web.watch.timeline import iterate_series_points

from .activity import describe_activity
from .bundle_causes import BUNDLE_RULES
from .event_time_causes import EVENT_TIME_RULES
from .facts import Cause, CauseKind, CauseSeverity, JobFacts
from .retry_causes import RETRY_RULES, list_failing_steps
from .shape_causes import SHAPE_RULES
from .wait_causes import find_job_waits, find_stage_waits

_HOT_SHARE = 0.5
_HOT_WALL_MS = 10_000
_GROWING_SECONDS = 30.0
_WHY_LOST = (
    "A process exited unexpectedly. Possible causes are the kernel if memory was"
    " short, a crash in C code, or a failure of the machine. The step with retried"
    " bundles ran in the process"
)
_WHY: Mapping[str, str] = {FailureCause.LOST_PROCESS: _WHY_LOST}
"""Explanations, by the cause of a failure."""


def find_causes(facts: JobFacts) -> tuple[Cause, ...]:
    """Returns the sentences about a job's problems, the worst first. A job without problems has one
    sentence about its activity.
    """
    found = [cause for rule in _RULES for cause in rule(facts)]
    if not any(cause.weight <= CauseSeverity.GOOD for cause in found):
        found.append(Cause(CauseKind.WELL, CauseSeverity.GOOD, _describe_healthy_job(facts)))
    return tuple(sorted(found, key=lambda cause: cause.weight))


def _describe_healthy_job(facts: JobFacts) -> str:
    match facts.snapshot.state:
        case JobState.DONE:
            return "The job has finished."
        case JobState.DRAINED:
            return (
                "The job was drained: its sources stopped, and the job processed all"
                " their data. Beam's Python client reports any final state except DONE"
                " as an error; DRAINED isn't an error."
            )
        case JobState.UPDATED:
            return (
                "The job was updated: another job has its state and continues its work."
                " Beam's Python client reports any final state except DONE as an error;"
                " UPDATED isn't an error."
            )
        case JobState.CANCELLED:
            return "The job was cancelled."
        case JobState.CANCELLING:
            return "The job is being cancelled: the server stops its bundles."
        case JobState.DRAINING:
            return (
                "The job is being drained: it processes the remaining data of its"
                f" sources; {describe_activity(facts)}."
            )
        case JobState.RUNNING:
            return f"No problems: {describe_activity(facts)}."
        case _:
            return "The job hasn't started yet."


def _find_server_outage(facts: JobFacts) -> Iterator[Cause]:
    if facts.snapshot.away:
        yield Cause(
            CauseKind.SERVER_AWAY,
            CauseSeverity.BAD,
            "The job server doesn't respond: this page shows the last known state, and"
            " continues when the server responds again.",
            more=facts.snapshot.away,
        )


def _explain_job_failure(facts: JobFacts) -> Iterator[Cause]:
    if facts.snapshot.state is not JobState.FAILED:
        return
    if not facts.failures:
        text = "The job failed, and the server doesn't report a reason."
        yield Cause(CauseKind.FAILED, CauseSeverity.BAD, text, "logs")
        return
    group = facts.failures[0]
    tried = f" after {format_count(group.retried + 1)} attempts" if group.retried else ""
    yield _make_failure_cause(facts, group, CauseKind.FAILED, f"The job failed{tried}")


def _make_failure_cause(facts: JobFacts, group: FailureGroup, kind: CauseKind, what: str) -> Cause:
    failure = group.failure
    raised = ": ".join(part for part in (failure.type, truncate_to_line(failure.text, 600)) if part)
    # Without a step at the end of the sentence, remove the comma that would precede the step.
    if failure.step:
        said = f"{what} in {facts.snapshot.tree.steps[failure.step].name}"
    else:
        said = what.rstrip(",")
    frame = failure.innermost_user_frame
    at = f", at {frame.place}" if frame else ""
    page = f"errors#{quote(failure.step or 'job', safe='')}"
    text = f"{said}: {raised}{at}"
    return Cause(kind, CauseSeverity.BAD, text, page, failure.step, _WHY.get(failure.cause, ""))


def _find_errors(facts: JobFacts) -> Iterator[Cause]:
    if facts.snapshot.state is JobState.FAILED:
        return
    told = list_failing_steps(facts)
    groups = [one for one in facts.failures if not (one.retried and one.failure.step in told)]
    for group in groups[:3]:
        times = f"{format_count(group.count)} times" if group.count > 1 else "once"
        again = ", and the server retried the failed work," if group.retried else ""
        what = f"An error occurred {times}{again}"
        cause = _make_failure_cause(facts, group, CauseKind.ERROR, what)
        yield attrs.evolve(cause, weight=CauseSeverity.WARN)


def _find_drain_delay(facts: JobFacts) -> Iterator[Cause]:
    """Yields the sentence about bundles without progress in a draining job. A drain never interrupts such bundles."""
    execution = facts.snapshot.execution
    if facts.snapshot.state is not JobState.DRAINING or execution is None:
        return
    standing = {one.stage for one in execution.bundles if is_bundle_stalled(one)}
    stages = [stage for stage in facts.snapshot.figures.stages if stage.id in standing]
    if stages:
        names = " and ".join(dict.fromkeys(facts.get_stage_label(stage) for stage in stages[:2]))
        text = (
            f"The drain waits for {names}: a bundle runs until its code returns or"
            " claims its next position, and makes no progress; if it never does, cancel"
            " the job"
        )
        yield Cause(
            CauseKind.DRAIN, CauseSeverity.WARN, text, "end", facts.find_main_step(stages[0])
        )


def _find_growing_backlogs(facts: JobFacts) -> Iterator[Cause]:
    snapshot = facts.snapshot
    if snapshot.state.is_terminal:
        return
    before = {
        stage.id: point[2]
        for stage in snapshot.figures.stages
        for point in iterate_series_points(snapshot, stage.id)
        if point[0] <= snapshot.taken - _GROWING_SECONDS
    }
    for stage in snapshot.figures.stages:
        now = stage.waiting_bytes or 0
        if stage.id in before and now > 2 * before[stage.id] > 0 and now > 1_000_000:
            yield Cause(
                CauseKind.BACKLOG,
                CauseSeverity.WARN,
                f"{facts.get_stage_label(stage)} doesn't keep up: {format_size(now)} wait for it; "
                "it was"
                f" {format_size(before[stage.id])} half a minute ago",
                facts.make_card_link(stage),
                facts.find_main_step(stage),
            )


def _find_retried_stages(facts: JobFacts) -> Iterator[Cause]:
    """Yields sentences about stages that have failed attempts, but no reported error."""
    if facts.snapshot.state is JobState.FAILED:
        return
    told = {group.failure.step for group in facts.failures if group.retried} | list_failing_steps(
        facts
    )
    for stage in facts.snapshot.figures.stages:
        if stage.retried and not told.intersection(stage.steps):
            times = "once" if stage.retried == 1 else f"{format_count(stage.retried)} times"
            text = f"Bundles of {facts.get_stage_label(stage)} were retried {times}"
            card, step = facts.make_card_link(stage), facts.find_main_step(stage)
            yield Cause(CauseKind.RETRIED, CauseSeverity.WARN, text, card, step)


def _find_slowest_step(facts: JobFacts) -> Iterator[Cause]:
    snapshot = facts.snapshot
    if snapshot.state in (JobState.FAILED, JobState.CANCELLED):
        return
    leaves = [
        (figures.share or 0.0, key)
        for key, figures in snapshot.figures.steps.items()
        if not snapshot.tree.steps[key].children and (figures.wall or 0) >= _HOT_WALL_MS
    ]
    share, key = max(leaves, default=(0.0, ""))
    if share >= _HOT_SHARE and len(snapshot.figures.steps) > 1:
        wall = (snapshot.figures.steps[key].wall or 0) / 1000
        verb = "took" if snapshot.state.is_terminal else "takes"
        yield Cause(
            CauseKind.HOT_STEP,
            CauseSeverity.NOTE,
            f"{snapshot.tree.steps[key].name} {verb} {format_percentage(share)} of the processing "
            "time "
            f"({format_duration(wall)} in all workers)",
            "",
            key,
        )


def _find_warnings(facts: JobFacts) -> Iterator[Cause]:
    count, last = facts.snapshot.warnings, facts.snapshot.last_warning
    if last is None:
        return
    tree = facts.snapshot.tree
    step, text = (
        (tree.find_step(last.step), last.text)
        if last.step
        else tree.names.split_step_name(last.text)
    )
    one = "A warning" if count == 1 else f"{format_count(count)} warnings, the last"
    where = f" of {tree.steps[step].name}" if step else ""
    said = f"{one}{where}: {truncate_to_line(text, 160)}"
    yield Cause(CauseKind.WARNING, CauseSeverity.NOTE, said, "logs?severity=warning")


_RULES: tuple[Callable[[JobFacts], Iterator[Cause]], ...] = (
    _find_server_outage,
    _explain_job_failure,
    _find_drain_delay,
    find_job_waits,
    *RETRY_RULES,
    *BUNDLE_RULES,
    find_stage_waits,
    _find_growing_backlogs,
    *EVENT_TIME_RULES,
    _find_errors,
    _find_retried_stages,
    *SHAPE_RULES,
    _find_slowest_step,
    _find_warnings,
)
