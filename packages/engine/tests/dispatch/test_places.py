"""Tests of slots: blocked bundles, and the slot that a bundle gets."""

from __future__ import annotations

import pytest

from beam_runner_engine.dispatch.places import Patience, Place, place_for

from .bundles import bundle

PATIENCE = Patience(blocked=1.0, preparing=9.0, unheard=3.0)


def place(began: float = 10.0) -> Place:
    made = Place()
    made.begin(bundle(1), began)
    return made


def test_an_empty_place_is_not_blocked() -> None:
    assert not Place().is_blocked(1e9, PATIENCE, takes_turns=False)
    assert not Place().is_busy


def test_what_comes_no_further_is_blocked_until_it_does() -> None:
    one = place()
    one.told(0.0, None, 10.5, takes_turns=False)
    assert not one.is_blocked(11.0, PATIENCE, takes_turns=False)
    assert one.is_blocked(11.1, PATIENCE, takes_turns=False)
    assert one.told(0.5, None, 11.2, takes_turns=False)
    assert not one.is_blocked(11.3, PATIENCE, takes_turns=False)
    assert not one.told(0.5, None, 12.0, takes_turns=False)
    assert one.is_blocked(12.3, PATIENCE, takes_turns=False)


def test_what_may_still_start_has_longer_until_it_is_heard_of() -> None:
    one = place()
    assert not one.is_blocked(19.0, PATIENCE, takes_turns=False)
    assert one.is_blocked(19.1, PATIENCE, takes_turns=False)


@pytest.mark.parametrize("takes_turns", [False, True])
def test_what_waits_for_what_it_runs_in_is_not_blocked_until_it_is_heard_of(
    takes_turns: bool,
) -> None:
    one = place()
    one.prepares = True
    assert not one.is_blocked(1e9, PATIENCE, takes_turns=takes_turns)
    one.told(0.0, None, 50.0, takes_turns=takes_turns)
    assert one.is_blocked(51.1, PATIENCE, takes_turns=takes_turns)
    one.prepares = True
    one.begin(bundle(2), 60.0)
    assert one.is_blocked(69.1, PATIENCE, takes_turns=takes_turns)


@pytest.mark.parametrize(
    ("waits", "heard_at", "blocked_from"),
    [(None, None, 13.0), (None, 10.5, 11.5), (True, 10.5, 11.5)],
)
def test_what_takes_turns_has_longer_until_it_is_heard_of(
    waits: bool | None, heard_at: float | None, blocked_from: float
) -> None:
    one = place()
    if heard_at is not None:
        one.told(0.0, waits, heard_at, takes_turns=True)
    assert not one.is_blocked(blocked_from, PATIENCE, takes_turns=True)
    assert one.is_blocked(blocked_from + 0.1, PATIENCE, takes_turns=True)


def test_what_is_busy_with_one_element_is_never_blocked() -> None:
    one = place()
    one.told(0.0, False, 10.5, takes_turns=True)
    assert not one.is_blocked(1e9, PATIENCE, takes_turns=True)


def test_the_next_bundle_begins_anew() -> None:
    one = place()
    one.told(0.7, True, 10.5, takes_turns=True)
    one.giving_way = True
    one.begin(bundle(2), 20.0)
    assert (one.fraction, one.heard, one.waits, one.giving_way) == (0.0, False, None, False)
    assert one.runs(2, 1)
    assert not one.runs(2, 2)


def test_a_bundle_runs_where_its_shard_was_at_work() -> None:
    places = [Place(), Place(), Place()]
    for shard, one in enumerate(places):
        one.begin(bundle(shard, shard=shard), 0.0)
        one.begin(None, 1.0)
    assert place_for(bundle(9, shard=1), places) is places[1]
    assert place_for(bundle(9, shard=7), places) is places[-1]
