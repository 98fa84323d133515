"""Why a job failed, is slow or stuck: a sentence for each reason, the worst first."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator

import attrs
from beam_runner_jobservices import FailureGroup, Importance, JobState, RunningBundle, seconds_of

from .facts import Cause, Facts, Weight
from .figures import StageFigures
from .shape_causes import SHAPE_RULES
from .standing import OLD_SECONDS, STILL_SECONDS, stands, thread_of
from .texts import duration, is_end, is_start, number, one_line, percent, size
from .watching import Snapshot

_OLD_BUNDLE_MS = 10_000
_HOT_SHARE = 0.5
_HOT_WALL_MS = 10_000
_GROWING_SECONDS = 30.0
_LAG_SECONDS = 60.0
_STILL_SECONDS = 5.0
_STRAGGLES = 5
_GROUP_BY_KEY = "beam:transform:group_by_key:v1"
_IN_A_HARNESS = "an SDK harness"
_UNSEEN = (
    "The SDK harness has not told what its threads do. Python's and Go's do where they run in processes and docker, those "
    "of newer Python SDKs also in the program that submitted its job with LOOPBACK. py-spy dump of its process shows it, too"
)
_BUNDLES_RUN = re.compile(r" has bundles running: \d+$")
_NOTHING_COMMITTED = re.compile(r"^nothing has been committed for (\d+) s: (.*)$", re.DOTALL)


def causes_of(facts: Facts) -> tuple[Cause, ...]:
    """The sentences, the worst first; at least one."""
    found = [cause for rule in _RULES for cause in rule(facts)]
    if not any(cause.weight <= Weight.GOOD for cause in found):
        found.append(Cause(Weight.GOOD, _all_is_well(facts.snapshot)))
    return tuple(sorted(found, key=lambda cause: cause.weight))


def _all_is_well(snapshot: Snapshot) -> str:
    match snapshot.state:
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
                "The job is being drained: its sources have ended, and what they gave is processed."
            )
        case JobState.RUNNING:
            return "Nothing stands out: no step waits, fails or holds the others up."
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
    yield _failure(facts, facts.failures[0], "The job failed")


def _failure(facts: Facts, group: FailureGroup, what: str) -> Cause:
    failure = group.failure
    raised = ": ".join(part for part in (failure.type, one_line(failure.text, 300)) if part)
    where = f" in {facts.snapshot.tree.steps[failure.step].name}" if failure.step else ""
    frame = failure.users_frame
    at = f", at {frame.place}" if frame else ""
    return Cause(Weight.BAD, f"{what}{where}: {raised}{at}", "errors", failure.step)


def _errors_so_far(facts: Facts) -> Iterator[Cause]:
    if facts.snapshot.state is JobState.FAILED:
        return
    for group in facts.failures[:3]:
        times = f"{number(group.count)} times" if group.count > 1 else "once"
        yield attrs.evolve(_failure(facts, group, f"An error came {times}"), weight=Weight.WARN)


def _stands_still(facts: Facts) -> Iterator[Cause]:
    """What the runner itself says when nothing moves: reasons stage by stage, else its message."""
    snapshot = facts.snapshot
    if snapshot.state.is_terminal:
        return
    stages = [stage for stage in snapshot.figures.stages if stage.waits]
    for stage in stages:
        for wait in stage.waits:
            yield Cause(Weight.WARN, wait, "stages", facts.step(stage))
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


def _says_only_what_is_told(snapshot: Snapshot, reasons: str) -> bool:
    """Whether a report names bundles that run and nothing else, while there are sentences about these."""
    standing = snapshot.execution is not None and any(map(stands, snapshot.execution.bundles))
    return standing and all(_BUNDLES_RUN.search(reason) for reason in reasons.split("; "))


def _latest_report(snapshot: Snapshot) -> object:
    reports = (m for m in reversed(snapshot.messages) if _NOTHING_COMMITTED.match(m.text))
    return next(reports, None)


def _no_place(facts: Facts) -> Iterator[Cause]:
    execution = facts.snapshot.execution
    if execution is not None and execution.without_place:
        count = execution.without_place
        text = "One bundle waits" if count == 1 else f"{number(count)} bundles wait"
        more = (
            "Spark begins a task for each place when an executor has a free core. Other jobs may hold "
            "them all, or no executor has come yet"
        )
        where = f": see {execution.interface}" if execution.interface else "."
        yield Cause(Weight.WARN, f"{text} for a place on the cluster", "now", more=more + where)


def _long_bundles(facts: Facts) -> Iterator[Cause]:
    """Bundles that have run for long, by the runner that tells of them: a sentence for each stage."""
    execution = facts.snapshot.execution
    if execution is None:
        return
    of_stages: dict[str, list[RunningBundle]] = defaultdict(list)
    for one in execution.bundles:
        if one.seconds >= OLD_SECONDS:
            of_stages[one.stage].append(one)
    stages = {stage.id: stage for stage in facts.snapshot.figures.stages}
    for key, bundles in list(of_stages.items())[:3]:
        standing = [one for one in bundles if stands(one)]
        yield _of_bundles(facts, stages.get(key), standing or bundles)


def _of_bundles(facts: Facts, stage: StageFigures | None, bundles: list[RunningBundle]) -> Cause:
    """What is said of bundles of one stage, which all stand, or none of them does."""
    tree = facts.snapshot.tree
    one = max(bundles, key=lambda bundle: bundle.seconds)
    step = facts.hottest([step for step in map(tree.find, one.steps) if step])
    name = tree.steps[step].name if step else " + ".join(one.steps)
    many = "one bundle" if len(bundles) == 1 else f"{number(len(bundles))} bundles"
    length = duration(one.seconds) if len(bundles) == 1 else f"up to {duration(one.seconds)}"
    again = f", attempt {one.attempt}" if one.attempt > 1 else ""
    process = f"process {one.pid} on {one.host}{again}"
    usual = stage.bundle_msecs.mean / 1000 if stage and stage.bundle_msecs else 0.0
    straggles = 0 < usual < one.seconds / _STRAGGLES
    grouped = straggles and stage is not None and _reads_groups(facts, stage)
    if stands(one):
        for_all = abs(one.seconds - one.still) < STILL_SECONDS
        still = "without coming any further" if for_all else f"no further for {duration(one.still)}"
        thread = thread_of(one, facts.snapshot.threads)
        frame = thread.own[0] if thread else None
        at = f", at {frame.place}" if frame else ""
        if thread and thread.sdk and thread.pid:
            process = f"SDK harness in process {thread.pid} on {one.host}{again}"
        code = f": {one_line(frame.code, 120)}" if frame and frame.code else ""
        text = f"{name} has worked on {many} for {length}, {still}{at} ({process}){code}"
        if grouped:
            text += f"; others took {duration(usual)}: a key with far more values would do that"
        unseen = one.where == _IN_A_HARNESS and not facts.snapshot.threads
        return Cause(Weight.WARN, text, "stacks", step, more=_UNSEEN if unseen else "")
    if straggles:
        mean = f"one takes {duration(usual)} on average"
        text = f"{name} has worked on {many} for {length}, where {mean} ({process})"
        if grouped:
            text += ": a key with far more values than others would do that"
        return Cause(Weight.WARN, text, "stacks", step)
    text = f"{name} is at work on {many}, for {length} ({process}): see what its code does"
    return Cause(Weight.NOTE, text, "stacks", step)


def _reads_groups(facts: Facts, stage: StageFigures) -> bool:
    """Whether what comes into a stage was grouped by key: all values of a key are in one bundle then."""
    tree = facts.snapshot.tree
    producers = tree.producers()
    inside = frozenset(stage.steps)
    makers = (
        producers.get(pcollection, "")
        for key in stage.steps[:1]
        for pcollection in tree.steps[key].description.inputs.values()
    )
    return any(
        tree.steps[maker].description.urn == _GROUP_BY_KEY
        for maker in makers
        if maker and maker not in inside
    )


def _old_bundles(facts: Facts) -> Iterator[Cause]:
    if facts.snapshot.execution is not None:
        return
    running = [s for s in facts.snapshot.figures.stages if (s.commit_lag or 0) >= _OLD_BUNDLE_MS]
    if facts.snapshot.state.is_terminal:
        return
    for stage in sorted(running, key=lambda s: -(s.commit_lag or 0))[:3]:
        age = duration((stage.commit_lag or 0) / 1000)
        yield Cause(
            Weight.WARN,
            f"{facts.name(stage)} has worked on one bundle for {age}",
            "stages",
            facts.step(stage),
        )


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
                "stages",
                facts.step(stage),
            )


def _watermark_lags(facts: Facts) -> Iterator[Cause]:
    """Stages of a stream that are late by themselves: what they hold back, or a bundle that is old.

    A stage's watermarks are both held by what it has in its bundles, so that a slow one is seen by the age
    of its oldest.
    """
    snapshot = facts.snapshot
    if snapshot.state.is_terminal:
        return
    late = []
    for stage in snapshot.figures.stages:
        mark = stage.output_watermark
        if mark is None or is_start(mark) or is_end(mark):
            continue
        ahead = stage.input_watermark
        lag = snapshot.taken - mark / 1000
        own = 0.0 if ahead is None or is_end(ahead) else (ahead - mark) / 1000
        oldest = (stage.commit_lag or 0) / 1000
        if lag > _LAG_SECONDS and max(own, oldest) > lag / 2:
            late.append((lag, oldest if oldest > own else 0.0, stage))
    for lag, oldest, stage in sorted(late, key=lambda item: -item[0])[:3]:
        name = facts.name(stage)
        behind = f"what comes out of it is {duration(lag)} behind"
        text = f"{name} holds event time back: {behind}"
        if oldest:
            text = f"{name} does not keep up: {behind}, and its oldest bundle has run for {duration(oldest)}"
        yield Cause(Weight.WARN, text, "stages", facts.step(stage))


def _retried(facts: Facts) -> Iterator[Cause]:
    for stage in facts.snapshot.figures.stages:
        if stage.retried:
            yield Cause(
                Weight.WARN,
                f"{facts.name(stage)} had {number(stage.retried)} bundles tried again",
                "stages",
                facts.step(stage),
            )


def _hot_step(facts: Facts) -> Iterator[Cause]:
    snapshot = facts.snapshot
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
    found = [m for m in facts.snapshot.messages if m.importance is Importance.WARNING]
    if found:
        step, text = facts.snapshot.tree.names.step_of(found[-1].text)
        one = "A warning" if len(found) == 1 else f"{number(len(found))} warnings, the last"
        where = f" of {facts.snapshot.tree.steps[step].name}" if step else ""
        page = "logs?severity=warning"
        yield Cause(Weight.NOTE, f"{one}{where}: {one_line(text, 160)}", page)


_RULES: tuple[Callable[[Facts], Iterator[Cause]], ...] = (
    _away,
    _failed,
    _no_place,
    _long_bundles,
    _old_bundles,
    _stands_still,
    _backlog_grows,
    _watermark_lags,
    _errors_so_far,
    _retried,
    *SHAPE_RULES,
    _hot_step,
    _warnings,
)
