"""Why a job failed, is slow or stuck: a sentence for each reason, the worst first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from urllib.parse import quote

import attrs
from beam_runner_jobservices import FailureGroup, Importance, JobState, is_retried, seconds_of

from .at_work import at_work
from .bundle_causes import BUNDLE_RULES
from .event_time_causes import EVENT_TIME_RULES
from .facts import Cause, Facts, Weight
from .retry_causes import RETRY_RULES, failing_steps
from .shape_causes import SHAPE_RULES
from .standing import is_silent, stands
from .texts import duration, number, one_line, percent, size
from .watching import Snapshot

_HOT_SHARE = 0.5
_HOT_WALL_MS = 10_000
_GROWING_SECONDS = 30.0
_STILL_SECONDS = 5.0
_LITTLE_BYTES = 1_000
_BUNDLES_RUN = re.compile(r" has bundles running: \d+$")
_FOR_ITS_TIME = re.compile(r" has a timer in shard | waits in shard \S+ for the watermark |^it is ")
_PROCESS_GONE = re.compile(r"(the worker process .* was lost|its worker process was replaced)$")
_WHY_LOST = (
    "Something ended the process: the kernel where memory was short, code in C that crashed, or its "
    "machine. The step whose bundles were tried again is the one that ran in it"
)
_DOES_NOT_ANSWER = re.compile(
    r"^Python worker .* has not answered for \d+ s: |^if that never ends, "
)
_GIVES = re.compile(r", which (.*) has not given yet$")
_ANOTHER_ATTEMPT = re.compile(
    r" for another attempt at a bundle that failed |, and tries again in "
)
_LEFT_OUT = re.compile(r"^\(\d+ earlier messages are no longer kept\)$")
_NOTHING_COMMITTED = re.compile(r"^nothing has been committed for (\d+) s: (.*)$", re.DOTALL)


def causes_of(facts: Facts) -> tuple[Cause, ...]:
    """The sentences, the worst first; at least one."""
    found = [cause for rule in _RULES for cause in rule(facts)]
    if not any(cause.weight <= Weight.GOOD for cause in found):
        found.append(Cause(Weight.GOOD, _all_is_well(facts)))
    return tuple(sorted(found, key=lambda cause: cause.weight))


def _all_is_well(facts: Facts) -> str:
    match facts.snapshot.state:
        case JobState.DONE:
            return "The job has done all its work."
        case JobState.DRAINED:
            return (
                "The job was drained: its sources were ended, and what they had given was processed. "
                "Beam's Python client reports any end but DONE as an error; this one is none."
            )
        case JobState.CANCELLED:
            return "The job was cancelled."
        case JobState.CANCELLING:
            return "The job is being cancelled: what runs is stopped."
        case JobState.DRAINING:
            return (
                f"The job is being drained: what its sources gave is processed; {at_work(facts)}."
            )
        case JobState.RUNNING:
            return f"Nothing stands out: {at_work(facts)}."
        case _:
            return "The job has not begun to run yet."


def _away(facts: Facts) -> Iterator[Cause]:
    if facts.snapshot.away:
        yield Cause(
            Weight.BAD,
            "The job server does not answer: this page shows what was last known, and goes on when "
            "it is back.",
            more=facts.snapshot.away,
        )


def _failed(facts: Facts) -> Iterator[Cause]:
    if facts.snapshot.state is not JobState.FAILED:
        return
    if not facts.failures:
        yield Cause(Weight.BAD, "The job failed, and the server does not tell why.", "logs")
        return
    group = facts.failures[0]
    tried = f" after {number(group.retried + 1)} attempts" if group.retried else ""
    yield _failure(facts, group, f"The job failed{tried}")


def _failure(facts: Facts, group: FailureGroup, what: str) -> Cause:
    failure = group.failure
    raised = ": ".join(part for part in (failure.type, one_line(failure.text, 600)) if part)
    # A clause within commas goes on only where a step is named.
    if failure.step:
        said = f"{what} in {facts.snapshot.tree.steps[failure.step].name}"
    else:
        said = what.rstrip(",")
    frame = failure.users_frame
    at = f", at {frame.place}" if frame else ""
    page = f"errors#{quote(failure.step or 'job', safe='')}"
    more = _WHY_LOST if _PROCESS_GONE.match(failure.text) else ""
    return Cause(Weight.BAD, f"{said}: {raised}{at}", page, failure.step, more)


def _errors_so_far(facts: Facts) -> Iterator[Cause]:
    if facts.snapshot.state is JobState.FAILED:
        return
    told = failing_steps(facts)
    groups = [one for one in facts.failures if not (one.retried and one.failure.step in told)]
    for group in groups[:3]:
        times = f"{number(group.count)} times" if group.count > 1 else "once"
        again = ", and what it stopped was tried again," if group.retried else ""
        what = f"An error came {times}{again}"
        yield attrs.evolve(_failure(facts, group, what), weight=Weight.WARN)


def _drain_waits(facts: Facts) -> Iterator[Cause]:
    """What keeps a job from the end of its drain: bundles that stand, which nothing interrupts."""
    execution = facts.snapshot.execution
    if facts.snapshot.state is not JobState.DRAINING or execution is None:
        return
    standing = {one.stage for one in execution.bundles if stands(one)}
    stages = [stage for stage in facts.snapshot.figures.stages if stage.id in standing]
    if stages:
        names = " and ".join(dict.fromkeys(facts.name(stage) for stage in stages[:2]))
        text = (
            f"The drain waits for {names}: what runs there goes on until it returns or claims what is next, and "
            "comes no further; if it never does, cancel the job"
        )
        yield Cause(Weight.WARN, text, "end", facts.step(stages[0]))


def _stands_still(facts: Facts) -> Iterator[Cause]:
    """What the runner itself says when nothing moves: reasons stage by stage, else its message."""
    snapshot = facts.snapshot
    if snapshot.state.is_terminal:
        return
    stages = [stage for stage in snapshot.figures.stages if stage.waits]
    for stage in stages:
        # A step to which next to nothing has come yet may only wait for its turn.
        little = stage.backlog_bytes is not None and stage.backlog_bytes < _LITTLE_BYTES
        weight = Weight.NOTE if little else Weight.WARN
        for wait in stage.waits:
            step = snapshot.tree.find(wait.partition(" waits ")[0]) or facts.step(stage)
            if not (little and _is_in_one_composite(facts, step, wait)):
                yield Cause(weight, wait, facts.card(stage), step)
    last = snapshot.messages[-1] if snapshot.messages else None
    for message in () if stages or last is None else snapshot.messages[-20:]:
        found = _NOTHING_COMMITTED.match(message.text)
        if found is None or _says_only_what_is_told(snapshot, found[2]):
            continue
        if message is _latest_report(snapshot):
            since = snapshot.taken - (seconds_of(message.time) or snapshot.taken) + int(found[1])
            if since < 3 * int(found[1]) + _STILL_SECONDS:
                text = f"Nothing has been committed for {duration(since)}: {found[2]}"
                yield Cause(Weight.WARN, one_line(text, 600), "logs")


def _is_in_one_composite(facts: Facts, step: str, wait: str) -> bool:
    """Whether a step waits for a part of the same composite, as combining globally does for its default."""
    tree = facts.snapshot.tree
    found = _GIVES.search(wait)
    maker = tree.find(found[1]) if found else ""
    return bool(maker and step) and tree.steps[maker].parent == tree.steps[step].parent != ""


def _says_only_what_is_told(snapshot: Snapshot, reasons: str) -> bool:
    """Whether a report names bundles that run and nothing else, while there are sentences about these."""
    bundles = snapshot.execution.bundles if snapshot.execution else ()
    # A source of a stream may run a bundle in which it waits, and timers wait for their time: no news.
    runs = any(map(stands, bundles)) or (snapshot.streaming and bool(bundles))
    told = [_FOR_ITS_TIME, *[_BUNDLES_RUN] * runs]
    told += [_DOES_NOT_ANSWER] * any(map(is_silent, bundles))
    told += [_ANOTHER_ATTEMPT] * bool(snapshot.execution and snapshot.execution.failed)
    return all(any(one.search(reason) for one in told) for reason in reasons.split("; "))


def _latest_report(snapshot: Snapshot) -> object:
    reports = (m for m in reversed(snapshot.messages) if _NOTHING_COMMITTED.match(m.text))
    return next(reports, None)


def _no_place(facts: Facts) -> Iterator[Cause]:
    execution = facts.snapshot.execution
    if execution is not None and execution.without_place:
        count = execution.without_place
        text = "One bundle waits" if count == 1 else f"{number(count)} bundles wait"
        more = (
            "A place is a core of the cluster, or of this machine. Other jobs may hold them all, or no "
            "executor has come yet"
        )
        where = f": see {execution.interface}" if execution.interface else "."
        yield Cause(Weight.WARN, f"{text} for a place on the cluster", "now", more=more + where)


def _backlog_grows(facts: Facts) -> Iterator[Cause]:
    snapshot = facts.snapshot
    if snapshot.state.is_terminal or len(snapshot.samples) < 2:
        return
    then = next(
        (s for s in reversed(snapshot.samples) if s.time <= snapshot.taken - _GROWING_SECONDS), None
    )
    if then is None:
        return
    before = {stage.id: stage.backlog_bytes or 0 for stage in then.figures.stages}
    for stage in snapshot.figures.stages:
        now = stage.backlog_bytes or 0
        if stage.id in before and now > 2 * before[stage.id] > 0 and now > 1_000_000:
            yield Cause(
                Weight.WARN,
                f"{facts.name(stage)} does not keep up: {size(now)} wait for it, "
                f"{size(before[stage.id])} half a minute ago",
                facts.card(stage),
                facts.step(stage),
            )


def _retried(facts: Facts) -> Iterator[Cause]:
    """Attempts that failed without an error that is told."""
    if facts.snapshot.state is JobState.FAILED:
        return
    told = {group.failure.step for group in facts.failures if group.retried} | failing_steps(facts)
    for stage in facts.snapshot.figures.stages:
        if stage.retried and not told.intersection(stage.steps):
            times = "once" if stage.retried == 1 else f"{number(stage.retried)} times"
            text = f"Bundles of {facts.name(stage)} had to be tried again {times}"
            yield Cause(Weight.WARN, text, facts.card(stage), facts.step(stage))


def _hot_step(facts: Facts) -> Iterator[Cause]:
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
            Weight.NOTE,
            f"{snapshot.tree.steps[key].name} {verb} {percent(share)} of the processing time "
            f"({duration(wall)} in all workers)",
            "",
            key,
        )


def _warnings(facts: Facts) -> Iterator[Cause]:
    messages = facts.snapshot.messages
    found = [m for m in messages if m.importance is Importance.WARNING]
    found = [m for m in found if not _LEFT_OUT.match(m.text)]
    if any(group.retried for group in facts.failures):
        found = [m for m in found if not is_retried(m.text)]
    if found:
        step, text = facts.snapshot.tree.names.step_of(found[-1].text)
        one = "A warning" if len(found) == 1 else f"{number(len(found))} warnings, the last"
        where = f" of {facts.snapshot.tree.steps[step].name}" if step else ""
        page = "logs?severity=warning"
        yield Cause(Weight.NOTE, f"{one}{where}: {one_line(text, 160)}", page)


_RULES: tuple[Callable[[Facts], Iterator[Cause]], ...] = (
    _away,
    _failed,
    _drain_waits,
    _no_place,
    *RETRY_RULES,
    *BUNDLE_RULES,
    _stands_still,
    _backlog_grows,
    *EVENT_TIME_RULES,
    _errors_so_far,
    _retried,
    *SHAPE_RULES,
    _hot_step,
    _warnings,
)
