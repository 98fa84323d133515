"""Sentences about bundles that make no progress, or that are slower than other bundles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from beam_runner_jobservices.figures.step_metrics import StageFigures
from beam_runner_jobservices.figures.texts import format_count, format_duration, truncate_to_line
from beam_runner_model.observation import BundleProcessKind, ObservedBundle

from beam_runner_web.watch.stalled_stacks import (
    OLD_SECONDS,
    STILL_SECONDS,
    find_bundle_thread,
    is_bundle_stalled,
    is_process_unresponsive,
)

from .facts import Cause, CauseKind, CauseSeverity, JobFacts

_OLD_BUNDLE_MS = 10_000
_STRAGGLES = 5
_UNSEEN = (
    "The SDK harness doesn't report the stacks of its threads. The Python and Go SDKs"
    " report them in processes and Docker, and newer Python SDKs also with LOOPBACK."
    " py-spy dump prints the stacks of a Python process, too"
)


def _find_long_bundles(facts: JobFacts) -> Iterator[Cause]:
    """Yields one sentence for each stage with bundles that run for at least 10 s, according to the
    runner.

    Skips bundles whose process doesn't answer or whose harness is starting, because the sentences
    about waits cover them.
    """
    execution = facts.snapshot.execution
    if execution is None:
        return
    of_stages: dict[str, list[ObservedBundle]] = defaultdict(list)
    for one in execution.bundles:
        starts = one.where is BundleProcessKind.STARTING_HARNESS
        if one.seconds >= OLD_SECONDS and not (starts or is_process_unresponsive(one)):
            of_stages[one.stage].append(one)
    stages = {stage.id: stage for stage in facts.snapshot.figures.stages}
    for key, bundles in list(of_stages.items())[:3]:
        standing = [one for one in bundles if is_bundle_stalled(one)]
        yield _make_bundle_cause(facts, stages.get(key), standing or bundles)


def _make_bundle_cause(
    facts: JobFacts, stage: StageFigures | None, bundles: list[ObservedBundle]
) -> Cause:
    """Returns the sentence about long-running bundles of one stage. Either all or none of the bundles
    make progress.
    """
    tree = facts.snapshot.tree
    one = max(bundles, key=lambda bundle: bundle.seconds)
    steps = [step for step in map(tree.find_step, one.steps) if step]
    step = facts.find_slowest_step(steps)
    name = facts.get_slowest_step_label(steps) or " + ".join(one.steps)
    many = "one bundle" if len(bundles) == 1 else f"{format_count(len(bundles))} bundles"
    length = (
        format_duration(one.seconds)
        if len(bundles) == 1
        else f"up to {format_duration(one.seconds)}"
    )
    worked = f"has processed {many} for {length}"
    again = f", attempt {one.attempt}" if one.attempt > 1 else ""
    process = f"process {one.pid} on {one.host}{again}"
    usual = stage.bundle_msecs.mean / 1000 if stage and stage.bundle_msecs else 0.0
    straggles = 0 < usual < one.seconds / _STRAGGLES
    grouped = straggles and stage is not None and bool(facts.find_grouping(stage))
    if is_bundle_stalled(one):
        still = _describe_lack_of_progress(facts, one, process)
        text = f"{name} {worked}, {still}"
        if grouped:
            text += (
                f"; other bundles took {format_duration(usual)}: a hot key, with far more"
                " values than other keys, is a possible cause"
            )
        unseen = one.where is BundleProcessKind.HARNESS and not facts.snapshot.threads
        more = _UNSEEN if unseen else ""
        return Cause(CauseKind.STANDING_BUNDLE, CauseSeverity.WARN, text, "stacks", step, more)
    if straggles:
        text = f"{name} {worked}; a bundle takes {format_duration(usual)} on average ({process})"
        if grouped:
            text += ": a hot key, with far more values than other keys, is a possible cause"
        return Cause(CauseKind.LONG_BUNDLE, CauseSeverity.WARN, text, "stacks", step)
    text = f"{name} processes {many}, for {length} ({process}): look at the stack of its code"
    return Cause(CauseKind.LONG_BUNDLE, CauseSeverity.NOTE, text, "stacks", step)


def _describe_lack_of_progress(facts: JobFacts, one: ObservedBundle, process: str) -> str:
    """Returns a phrase with the time since a bundle's last progress, and the line of user code that it executes."""
    for_all = abs(one.seconds - one.still) < STILL_SECONDS
    still = "without any progress" if for_all else f"no progress for {format_duration(one.still)}"
    thread = find_bundle_thread(one, facts.snapshot.threads)
    frame = thread.user_frames[0] if thread else None
    if thread and thread.sdk and thread.pid:
        process = process.replace(f"process {one.pid}", f"SDK harness in process {thread.pid}", 1)
    at = f", at {frame.place}" if frame else ""
    code = f": {truncate_to_line(frame.code, 120)}" if frame and frame.code else ""
    return f"{still}{at} ({process}){code}"


def _find_old_bundles(facts: JobFacts) -> Iterator[Cause]:
    if facts.snapshot.execution is not None:
        return
    running = [s for s in facts.snapshot.figures.stages if (s.commit_lag or 0) >= _OLD_BUNDLE_MS]
    if facts.snapshot.state.is_terminal:
        return
    for stage in sorted(running, key=lambda s: -(s.commit_lag or 0))[:3]:
        age = format_duration((stage.commit_lag or 0) / 1000)
        yield Cause(
            CauseKind.LONG_BUNDLE,
            CauseSeverity.WARN,
            f"{facts.get_stage_label(stage)} has processed one bundle for {age}",
            facts.make_card_link(stage),
            facts.find_main_step(stage),
        )


BUNDLE_RULES: tuple[Callable[[JobFacts], Iterator[Cause]], ...] = (
    _find_long_bundles,
    _find_old_bundles,
)
