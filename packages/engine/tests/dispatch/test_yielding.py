"""Tests of the selection of sources that must release their slot to waiting bundles."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.dispatch.bundle_queue import BundleQueue
from beam_runner_engine.dispatch.slots import Slot
from beam_runner_engine.dispatch.yielding import compute_yield_time, select_slots_that_must_yield

from .bundles import bundle, is_source


def at_work(*numbers: int) -> list[Slot]:
    """Returns slots with these bundles, started one second apart."""
    made = [Slot() for _ in numbers]
    for second, (place, number) in enumerate(zip(made, numbers, strict=True)):
        place.begin_bundle(bundle(number), float(second))
    return made


def waiting(*numbers: int) -> BundleQueue:
    made = BundleQueue(is_source, 0.25)
    made.add_bundles((bundle(number) for number in numbers), 50.0)
    return made


def none() -> int:
    return 0


def test_longest_running_source_releases_its_slot() -> None:
    places = at_work(100, 1, 101)
    assert select_slots_that_must_yield(places, waiting(2), none) == [places[0]]
    assert select_slots_that_must_yield(places, waiting(2, 3, 4), none) == [places[0], places[2]]


def test_source_does_not_release_its_slot_to_another_source() -> None:
    assert select_slots_that_must_yield(at_work(100, 1), waiting(102), none) == []


def test_slot_of_a_source_that_is_stopping_counts_as_free() -> None:
    places = at_work(100, 101)
    places[0].giving_way = True
    assert select_slots_that_must_yield(places, waiting(1), none) == []
    assert select_slots_that_must_yield(places, waiting(1, 2), none) == [places[1]]


@given(
    st.lists(st.sampled_from((None, 1, 100)), max_size=8),
    st.integers(0, 8),
    st.integers(-3, 8),
)
def test_number_of_stopping_sources_never_exceeds_number_of_waiting_bundles(
    running: list[int | None], others: int, may_begin: int
) -> None:
    places = [Slot() if number is None else at_work(number)[0] for number in running]
    free = min(running.count(None), max(0, may_begin))
    asked = select_slots_that_must_yield(places, waiting(*range(others)), lambda: may_begin)
    assert len(asked) == min(running.count(100), max(0, others - free))


def test_time_slice_of_a_source_restarts_after_a_request_to_release_its_slot() -> None:
    (place,) = at_work(100)
    assert compute_yield_time(place, 0.1) == 0.1
    place.asked = 7.0
    assert compute_yield_time(place, 0.1) == 7.1
