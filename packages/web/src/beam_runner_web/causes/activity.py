"""Short descriptions of the current activity of a healthy job."""

from __future__ import annotations

from beam_runner_jobservices.figures.texts import (
    format_count,
    format_duration,
    is_max_timestamp,
    is_min_timestamp,
)

from beam_runner_web.watch.snapshots import count_output_elements

from .facts import JobFacts

_NOTHING_SPECIAL = "no step waits, fails or delays other steps"
_MOST_NAMES = 2


def describe_activity(facts: JobFacts) -> str:
    """Returns a phrase about the current activity of a healthy job.

    For a stream, the phrase has the input rate and the delay. For a batch job, it has the active
    steps and the progress.
    """
    if not facts.snapshot.figures.stages:
        return _NOTHING_SPECIAL
    return _describe_stream(facts) if facts.snapshot.streaming else _describe_batch(facts)


def _describe_batch(facts: JobFacts) -> str:
    stages = facts.snapshot.figures.stages
    told = []
    names = dict.fromkeys(facts.get_stage_label(stage) for stage in stages if stage.open_bundles)
    if names:
        shown = list(names)[:_MOST_NAMES]
        more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
        told.append(f"{' and '.join(shown) if not more else ', '.join(shown)}{more} at work")
    done = sum(is_max_timestamp(stage.output_watermark) for stage in stages)
    told.append(f"{format_count(done)} of {format_count(len(stages))} stages done")
    return ", ".join(told)


def _describe_stream(facts: JobFacts) -> str:
    snapshot = facts.snapshot
    marks = [stage.output_watermark for stage in snapshot.figures.stages]
    known = [
        mark
        for mark in marks
        if mark is not None and not is_min_timestamp(mark) and not is_max_timestamp(mark)
    ]
    rates = [
        rate
        for key in snapshot.tree.sources
        if (rate := snapshot.compute_rate(count_output_elements(key))) is not None
    ]
    told = [f"{format_count(sum(rates))} elements arrive per second"] if rates else []
    if known:
        late = max(0.0, snapshot.taken - min(known) / 1000)
        told.append(f"no step is more than {format_duration(max(1.0, late))} behind")
    return ", and ".join(told) or _NOTHING_SPECIAL
