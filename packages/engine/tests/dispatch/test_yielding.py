"""Tests of the selection of sources that yield their slot."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.dispatch.places import Place
from beam_runner_engine.dispatch.waiting import WaitingBundles
from beam_runner_engine.dispatch.yielding import in_the_way, turn_ends

from .bundles import bundle, is_source


def at_work(*numbers: int) -> list[Place]:
    """Returns slots with these bundles, started one second apart."""
    made = [Place() for _ in numbers]
    for second, (place, number) in enumerate(zip(made, numbers, strict=True)):
        place.begin(bundle(number), float(second))
    return made


def waiting(*numbers: int) -> WaitingBundles:
    made = WaitingBundles(is_source, 0.25)
    made.add((bundle(number) for number in numbers), 50.0)
    return made


def none() -> int:
    return 0


def test_the_source_that_has_run_for_longest_gives_way() -> None:
    places = at_work(100, 1, 101)
    assert in_the_way(places, waiting(2), none) == [places[0]]
    assert in_the_way(places, waiting(2, 3, 4), none) == [places[0], places[2]]


def test_nobody_gives_way_to_a_source() -> None:
    assert in_the_way(at_work(100, 1), waiting(102), none) == []


def test_one_that_gives_way_already_counts_as_gone() -> None:
    places = at_work(100, 101)
    places[0].giving_way = True
    assert in_the_way(places, waiting(1), none) == []
    assert in_the_way(places, waiting(1, 2), none) == [places[1]]


@given(
    st.lists(st.sampled_from((None, 1, 100)), max_size=8),
    st.integers(0, 8),
    st.integers(-3, 8),
)
def test_no_more_give_way_than_wait_without_a_place(
    running: list[int | None], others: int, may_begin: int
) -> None:
    places = [Place() if number is None else at_work(number)[0] for number in running]
    free = min(running.count(None), max(0, may_begin))
    asked = in_the_way(places, waiting(*range(others)), lambda: may_begin)
    assert len(asked) == min(running.count(100), max(0, others - free))


def test_a_turn_is_counted_from_when_it_was_asked_last() -> None:
    (place,) = at_work(100)
    assert turn_ends(place, 0.1) == 0.1
    place.asked = 7.0
    assert turn_ends(place, 0.1) == 7.1
