"""Tests of the selection of slots that a job releases."""

from __future__ import annotations

import attrs

from beam_runner_engine.dispatch.idling import idle_since, place_to_give
from beam_runner_engine.dispatch.places import Place

from .bundles import bundle


@attrs.define(eq=False)
class Starting(Place):
    """Slot whose process is still starting."""

    is_starting: bool = True


def served(until: float) -> Place:
    """Returns a slot whose last bundle ended at this time."""
    place = Place()
    place.begin(bundle(1), 0.0)
    place.begin(None, until)
    return place


def busy() -> Place:
    place = Place()
    place.begin(bundle(1), 0.0)
    return place


def loop() -> Place:
    place = Place()
    place.begin_loop(0.0)
    return place


def test_what_had_nothing_to_do_for_long_is_idle() -> None:
    long, lately = served(1.0), served(7.0)
    assert idle_since([long, busy(), loop(), lately, Starting()], 5.0) == [long]


def test_an_idle_place_is_given_before_a_loop_is_asked() -> None:
    place, driving = served(1.0), loop()
    assert place_to_give([driving, place, busy()]) is place
    assert place_to_give([busy(), driving]) is driving


def test_a_loop_is_asked_once() -> None:
    driving = loop()
    driving.giving_way = True
    assert place_to_give([driving]) is None


def test_nothing_is_given_that_has_done_nothing_yet() -> None:
    assert place_to_give([Place(), Starting(), busy()]) is None
