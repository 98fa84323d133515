"""Property tests of dispatch: a simulated caller uses the engine to select bundles, slots, and
sources that must stop for other bundles.
"""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.dispatch.parallelism import ParallelismRules

from .graphs import Job, jobs
from .placed_jobs import PATIENCE, PlacedJob


@given(
    job=jobs(),
    cores=st.integers(1, 3),
    takes_turns=st.booleans(),
    script=st.lists(
        st.tuples(st.floats(0, 2), st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=40
    ),
)
def test_job_with_fewer_slots_than_bundles_runs_all_bundles(
    job: Job, cores: int, takes_turns: bool, script: list[tuple[float, int, int]]
) -> None:
    """Checks that every open bundle runs once or waits, that some bundle always runs, and that jobs
    end.
    """
    placed = PlacedJob(job, ParallelismRules(cores, 2 * cores, PATIENCE, takes_turns))
    for step in range(400):
        pause, which, keep = script[step % len(script)]
        placed.take_in()
        placed.give()
        for place in placed.ask(math.inf):
            place.is_starting = False
        placed.give()
        if placed.host.end is not None:
            return
        assert placed.in_line() == sorted(placed.host.open)
        assert len(placed.places) <= 2 * cores
        assert any(place.is_busy for place in placed.places) == bool(placed.host.open)
        placed.now += pause
        placed.ask_sources(keep)
        placed.end_one(which)
    assert job.unbounded
