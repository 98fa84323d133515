"""Tests of the selection of slots that a job releases."""

from __future__ import annotations

import attrs

from beam_runner_engine.dispatch.idle_slots import find_idle_slots, select_slot_to_release
from beam_runner_engine.dispatch.slots import Slot

from .bundles import bundle


@attrs.define(eq=False)
class Starting(Slot):
    """Slot whose process is still starting."""

    is_starting: bool = True


def served(until: float) -> Slot:
    """Returns a slot whose last bundle ended at this time."""
    place = Slot()
    place.begin_bundle(bundle(1), 0.0)
    place.begin_bundle(None, until)
    return place


def busy() -> Slot:
    place = Slot()
    place.begin_bundle(bundle(1), 0.0)
    return place


def loop() -> Slot:
    place = Slot()
    place.begin_loop(0.0)
    return place


def test_slot_without_work_counts_as_idle_after_the_time_limit() -> None:
    long, lately = served(1.0), served(7.0)
    assert find_idle_slots([long, busy(), loop(), lately, Starting()], 5.0) == [long]


def test_idle_slot_is_released_before_a_slot_with_a_scheduler_loop() -> None:
    place, driving = served(1.0), loop()
    assert select_slot_to_release([driving, place, busy()]) is place
    assert select_slot_to_release([busy(), driving]) is driving


def test_slot_whose_scheduler_loop_is_stopping_is_not_selected_again() -> None:
    driving = loop()
    driving.giving_way = True
    assert select_slot_to_release([driving]) is None


def test_slot_that_never_ran_a_bundle_is_not_released() -> None:
    assert select_slot_to_release([Slot(), Starting(), busy()]) is None
