"""Property tests of the number of running bundles and slots."""

from __future__ import annotations

import math

import attrs
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.dispatch.parallelism import ParallelismRules
from beam_runner_engine.dispatch.slots import BlockedTimeLimits, Slot

from .bundles import bundle

PATIENCE = BlockedTimeLimits(blocked=1.0, preparing=9.0, unheard=3.0)
NOW = 100.0


@attrs.define(eq=False)
class Starting(Slot):
    """Slot whose process is still starting."""

    is_starting: bool = True


@st.composite
def places(draw: st.DrawFn) -> list[Slot]:
    """Draws slots; some are free, and some have made no progress for long."""
    made = [Slot() for _ in range(draw(st.integers(0, 8)))]
    for number, place in enumerate(made):
        if draw(st.booleans()):
            place.begin_bundle(bundle(number), draw(st.sampled_from((NOW - 60, NOW - 2, NOW))))
            place.waits = draw(st.sampled_from((None, False, True)))
            place.heard = place.waits is not None
    return made


parallelisms = st.builds(
    lambda cores, more, turns: ParallelismRules(cores, cores + more, PATIENCE, turns),
    st.integers(1, 4),
    st.integers(0, 12),
    st.booleans(),
)


def busy(some: list[Slot]) -> int:
    return sum(place.is_busy for place in some)


def blocked(some: list[Slot], turns: bool) -> int:
    return sum(place.is_blocked(NOW, PATIENCE, takes_turns=turns) for place in some)


@given(places(), parallelisms, st.integers(0, 20), st.integers(0, 20))
def test_requested_slots_never_exceed_limit_and_demand(
    some: list[Slot], at_work: ParallelismRules, wanted: int, spare: int
) -> None:
    more = at_work.count_missing_slots(some, wanted, spare, NOW)
    assert 0 <= more <= wanted
    if more:
        limit = at_work.cores + blocked(some, at_work.takes_turns)
        assert len(some) + more <= min(at_work.most, limit)


@given(places(), parallelisms, st.integers(1, 20))
def test_job_requests_a_slot_for_each_unused_core(
    some: list[Slot], at_work: ParallelismRules, wanted: int
) -> None:
    """Checks that a job requests all usual slots, and one more for each blocked bundle, if the
    cluster has room.
    """
    more = at_work.count_missing_slots(some, wanted, math.inf, NOW)
    if not at_work.takes_turns:
        usual = min(at_work.most, at_work.cores + blocked(some, turns=False))
        assert more == max(0, min(wanted, usual - len(some)))


@given(places(), parallelisms, st.integers(1, 20), st.integers(0, 20))
def test_job_with_blocked_bundles_leaves_free_slots_to_other_jobs(
    some: list[Slot], at_work: ParallelismRules, wanted: int, spare: int
) -> None:
    more = at_work.count_missing_slots(some, wanted, spare, NOW)
    beyond = len(some) + more - max(at_work.cores, len(some))
    assert beyond <= max(0, spare - at_work.cores)


@given(places(), st.integers(1, 4), st.integers(0, 20))
def test_bundles_in_a_shared_interpreter_run_one_at_a_time_unless_all_busy_slots_wait(
    some: list[Slot], cores: int, waiting: int
) -> None:
    one_by_one = ParallelismRules(cores, 4 * cores, PATIENCE, takes_turns=True)
    more = one_by_one.count_startable_bundles(some, waiting, NOW)
    running = [place for place in some if place.is_busy]
    usual = cores if running and all(place.waits for place in running) else 1
    assert more == usual + blocked(some, turns=True) - len(running)
    side_by_side = ParallelismRules(cores, 4 * cores, PATIENCE)
    assert side_by_side.count_startable_bundles(some, waiting, NOW) == waiting


def test_job_with_a_starting_slot_requests_no_second_slot() -> None:
    at_work = ParallelismRules(2, 8, PATIENCE)
    assert at_work.count_missing_slots([Starting()], 2, math.inf, NOW) == 1
    assert at_work.count_missing_slots([Starting(), Starting()], 2, math.inf, NOW) == 0
    assert busy([Slot(loop=True)]) == 1
