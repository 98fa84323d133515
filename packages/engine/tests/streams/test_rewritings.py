"""What a runner rewrites in a stream changes no answer, and no watermark overtakes elements by it.

Random streams are carried to a grouping in random ways and in random order: through several stages,
by several writers of one collection, behind side inputs that are read window by window, in checkpoints
and repeated attempts, grouped in parts first, and combined before they are grouped.
`BEAM_ENGINE_RUNS` says how many.
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

from beam_runner_engine.keyed.groups import Group
from beam_runner_engine.testing.triggered_bulk import TriggeredBulk

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
    """Whether a runner may combine before it groups; the executor's translation goes by the same rule."""
    earliest = strategy.timestamp_combiner is TimestampCombiner.EARLIEST
    return not strategy.merges and not earliest


def members_of(group: Group) -> tuple[Member, ...]:
    return tuple(member for members in group.values for member in members)


def answer_of(groups: Iterable[Group]) -> Answer:
    """Which elements are together in which window, at which time."""
    return Counter(
        (g.key, g.window, g.timestamp, tuple(sorted(m.ident for m in members_of(g))))
        for g in groups
    )


def batch_of(job: StreamJob) -> Answer:
    """Returns the answer for the same elements when all of them are there at once."""
    grouper = TriggeredBulk(job.strategy, OverlapMerger() if job.strategy.merges else None)
    for member in job.members():
        for window in job.windows_of(member):
            key, time = b"%d/0" % member.key, member.time + job.shift
            grouper.add([key], [encode_window(window)], [time], [(member,)])
    return answer_of(grouper.groups())


@pytest.mark.timeout(300 + RUNS)
def test_stream_gives_the_answer_of_the_batch_however_it_is_carried() -> None:
    for seed in range(RUNS):
        rng = Random(seed)
        windows, combiner = rng.choice(list(WINDOW_FNS)), rng.choice(list(TimestampCombiner))
        strategy = strategy_of(windows, combiner)
        job = random_job(rng, strategy, lifts=may_lift(strategy) and rng.random() < 0.5)
        host = StreamHost(job, rng)
        host.run()
        assert answer_of(host.panes) == batch_of(job), seed


def timings_of(host: StreamHost) -> dict[tuple[int, bytes], PaneTiming]:
    """The timing of the first pane of each element and window; of merged windows, whichever it is."""
    merges = host.job.strategy.merges
    first: dict[tuple[int, bytes], PaneTiming] = {}
    for pane in host.panes:
        for member in members_of(pane):
            first.setdefault((member.ident, b"" if merges else pane.window), pane.pane.timing)
    return first


@pytest.mark.timeout(300 + RUNS)
def test_element_that_is_on_time_at_its_source_is_in_no_late_pane_and_never_dropped() -> None:
    """Beside elements that are late, whatever triggers, lateness and accumulation there are."""
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
                    (member.ident, b"" if strategy.merges else encode_window(window))
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
def test_combining_before_grouping_where_it_is_wrong_is_noticed(
    windows: str, combiner: TimestampCombiner, late: bool
) -> None:
    strategy = strategy_of(windows, combiner)
    assert not may_lift(strategy)
    with pytest.raises(Overtaken):
        for seed in range(200):
            rng = Random(seed)
            StreamHost(random_job(rng, strategy, lifts=True, late=late), rng).run()
