"""Tests of slots: blocked bundles, and the slot that a bundle gets."""

from __future__ import annotations

import pytest

from beam_runner_engine.dispatch.slots import BlockedTimeLimits, FreeSlots, Slot

from .bundles import bundle

PATIENCE = BlockedTimeLimits(blocked=1.0, preparing=9.0, unheard=3.0)


def place(began: float = 10.0) -> Slot:
    made = Slot()
    made.begin_bundle(bundle(1), began)
    return made


def test_slot_without_a_bundle_does_not_count_as_blocked() -> None:
    assert not Slot().is_blocked(1e9, PATIENCE, takes_turns=False)
    assert not Slot().is_busy


def test_bundle_without_progress_counts_as_blocked_until_it_makes_progress() -> None:
    one = place()
    one.record_progress(0.0, None, 10.5, takes_turns=False)
    assert not one.is_blocked(11.0, PATIENCE, takes_turns=False)
    assert one.is_blocked(11.1, PATIENCE, takes_turns=False)
    assert one.record_progress(0.5, None, 11.2, takes_turns=False)
    assert not one.is_blocked(11.3, PATIENCE, takes_turns=False)
    assert not one.record_progress(0.5, None, 12.0, takes_turns=False)
    assert one.is_blocked(12.3, PATIENCE, takes_turns=False)


def test_bundle_without_a_first_report_counts_as_blocked_after_a_longer_time() -> None:
    one = place()
    assert not one.is_blocked(19.0, PATIENCE, takes_turns=False)
    assert one.is_blocked(19.1, PATIENCE, takes_turns=False)


@pytest.mark.parametrize("takes_turns", [False, True])
def test_bundle_with_a_starting_harness_does_not_count_as_blocked(
    takes_turns: bool,
) -> None:
    one = place()
    one.prepares = True
    assert not one.is_blocked(1e9, PATIENCE, takes_turns=takes_turns)
    one.record_progress(0.0, None, 50.0, takes_turns=takes_turns)
    assert one.is_blocked(51.1, PATIENCE, takes_turns=takes_turns)
    one.prepares = True
    one.begin_bundle(bundle(2), 60.0)
    assert one.is_blocked(69.1, PATIENCE, takes_turns=takes_turns)


@pytest.mark.parametrize(
    ("waits", "heard_at", "blocked_from"),
    [(None, None, 13.0), (None, 10.5, 11.5), (True, 10.5, 11.5)],
)
def test_waiting_bundle_in_a_shared_interpreter_counts_as_blocked_after_a_longer_time(
    waits: bool | None, heard_at: float | None, blocked_from: float
) -> None:
    one = place()
    if heard_at is not None:
        one.record_progress(0.0, waits, heard_at, takes_turns=True)
    assert not one.is_blocked(blocked_from, PATIENCE, takes_turns=True)
    assert one.is_blocked(blocked_from + 0.1, PATIENCE, takes_turns=True)


def test_bundle_that_uses_cpu_in_a_shared_interpreter_never_counts_as_blocked() -> None:
    one = place()
    one.record_progress(0.0, False, 10.5, takes_turns=True)
    assert not one.is_blocked(1e9, PATIENCE, takes_turns=True)


def test_slot_that_begins_the_next_bundle_resets_its_progress() -> None:
    one = place()
    one.record_progress(0.7, True, 10.5, takes_turns=True)
    one.giving_way = True
    one.begin_bundle(bundle(2), 20.0)
    assert (one.fraction, one.heard, one.waits, one.giving_way) == (0.0, False, None, False)
    assert one.runs_bundle_attempt(2, 1)
    assert not one.runs_bundle_attempt(2, 2)


def test_bundle_of_a_key_shard_gets_the_slot_that_last_ran_the_shard() -> None:
    places = [Slot(), Slot(), Slot()]
    for shard, one in enumerate(places):
        one.begin_bundle(bundle(shard, shard=shard), 0.0)
        one.begin_bundle(None, 1.0)
    free = FreeSlots(places)
    assert free.take_slot(bundle(9, shard=1)) is places[1]
    assert free.take_slot(bundle(10, shard=1)) is places[2]
    assert free.take_slot(bundle(11, shard=2)) is places[0]
    assert not free
