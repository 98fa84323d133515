"""Tests that rewriting a stream changes no result and lets no watermark overtake elements.

Random streams reach a grouping through random stages in random order. The streams pass several
stages and several writers of one collection. Some wait for side inputs window by window, are
checkpointed or retried, or are grouped in parts or combined first. Jobs move to other graphs while
they run. `BEAM_ENGINE_RUNS` sets the number of runs.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from random import Random

import pytest
from beam_runner_model.panes import PaneTiming
from beam_runner_model.strategy import AccumulationMode, WindowingStrategy
from beam_runner_model.timestamp_combiners import TimestampCombiner
from beam_runner_model.window_coders import encode_window

from beam_runner_engine.keyed.groups import WindowPane
from beam_runner_engine.testing.triggered_bulk import TriggeredBulkGrouper

from .stream_host import Overtaken, StreamHost
from .stream_jobs import (
    TRIGGERS,
    WINDOW_FNS,
    Member,
    OverlapMerger,
    StreamJob,
    random_job,
    strategy_of,
)

RUNS = 2 * int(os.environ.get("BEAM_ENGINE_RUNS", "100"))
Answer = Counter[tuple[bytes, bytes, int, tuple[int, ...]]]


def may_lift(strategy: WindowingStrategy) -> bool:
    """Returns whether a runner may combine before grouping; the executor's translation uses the
    same rule.
    """
    earliest = strategy.timestamp_combiner is TimestampCombiner.EARLIEST
    return not strategy.needs_merge and not earliest


def members_of(group: WindowPane) -> tuple[Member, ...]:
    return tuple(member for members in group.values for member in members)


def answer_of(groups: Iterable[WindowPane]) -> Answer:
    """Returns the groups of elements with their window and timestamp."""
    return Counter(
        (g.key, g.window, g.timestamp, tuple(sorted(m.ident for m in members_of(g))))
        for g in groups
    )


def batch_of(job: StreamJob) -> Answer:
    """Returns the answer for the same elements when all of them are there at once."""
    grouper = TriggeredBulkGrouper(
        job.strategy, OverlapMerger() if job.strategy.needs_merge else None
    )
    for member in job.members():
        for window in job.windows_of(member):
            key, time = b"%d/0" % member.key, member.time + job.shift
            grouper.add_elements([key], [encode_window(window)], [time], [(member,)])
    return answer_of(grouper.build_groups())


@pytest.mark.timeout(300 + RUNS)
def test_rewritten_stream_returns_the_result_of_the_bounded_pipeline() -> None:
    for seed in range(RUNS):
        rng = Random(seed)
        windows, combiner = rng.choice(list(WINDOW_FNS)), rng.choice(list(TimestampCombiner))
        strategy = strategy_of(windows, combiner)
        job = random_job(rng, strategy, lifts=may_lift(strategy) and rng.random() < 0.5)
        host = StreamHost(job, rng)
        host.run()
        assert answer_of(host.panes) == batch_of(job), seed


def timings_of(host: StreamHost) -> dict[tuple[int, bytes], PaneTiming]:
    """Returns the timing of the first pane of each element and window; for merged windows, of any
    of them.
    """
    merges = host.job.strategy.needs_merge
    first: dict[tuple[int, bytes], PaneTiming] = {}
    for pane in host.panes:
        for member in members_of(pane):
            first.setdefault((member.ident, b"" if merges else pane.window), pane.pane.timing)
    return first


@pytest.mark.timeout(300 + RUNS)
def test_on_time_element_is_never_late_or_dropped() -> None:
    """Checks jobs that also have late elements, with random triggers, lateness and accumulation
    modes.
    """
    late = 0
    for seed in range(RUNS):
        rng = Random(seed)
        strategy = strategy_of(
            rng.choice(list(WINDOW_FNS)),
            rng.choice(list(TimestampCombiner)),
            rng.choice(list(TRIGGERS)),
            rng.choice(list(AccumulationMode)),
            rng.choice((0, 12)),
        )
        job = random_job(rng, strategy, lifts=may_lift(strategy) and rng.random() < 0.5, late=True)
        host = StreamHost(job, rng)
        host.run()
        first = timings_of(host)
        for member in job.members():
            for window in job.windows_of(member):
                timing = first.get(
                    (member.ident, b"" if strategy.needs_merge else encode_window(window))
                )
                late += timing in (None, PaneTiming.LATE)
                on_time = timing in (PaneTiming.EARLY, PaneTiming.ON_TIME)
                assert on_time or not member.on_time, (seed, member, timing)
    assert late, "no element was late"


@pytest.mark.parametrize(
    ("windows", "combiner", "late"),
    [
        ("sessions", TimestampCombiner.END_OF_WINDOW, False),
        ("custom", TimestampCombiner.END_OF_WINDOW, False),
        ("fixed", TimestampCombiner.EARLIEST, True),
        ("global", TimestampCombiner.EARLIEST, True),
    ],
)
def test_stream_check_detects_an_invalid_combiner_lifting(
    windows: str, combiner: TimestampCombiner, late: bool
) -> None:
    strategy = strategy_of(windows, combiner)
    assert not may_lift(strategy)
    with pytest.raises(Overtaken):
        for seed in range(200):
            rng = Random(seed)
            StreamHost(random_job(rng, strategy, lifts=True, late=late), rng).run()
