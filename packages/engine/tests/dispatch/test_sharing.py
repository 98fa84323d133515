"""Tests of slot sharing: jobs release slots to waiting jobs without slots or with at least two
fewer.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.dispatch.sharing import SharedPlaces

PATIENCE = 0.3


def sharing(**held: int) -> SharedPlaces:
    """Returns a registry of jobs with these numbers of slots."""
    shared = SharedPlaces(PATIENCE)
    for job, count in held.items():
        for place in range(count):
            shared.asked(job, place, 0.0)
            shared.got(job, place)
    return shared


@pytest.mark.parametrize(
    ("mine", "others", "owed"),
    [(0, 0, False), (1, 0, True), (1, 1, False), (2, 1, False), (3, 1, True), (1, 4, False)],
)
def test_a_place_is_owed_to_who_has_too_few(mine: int, others: int, owed: bool) -> None:
    shared = sharing(mine=mine, other=others)
    shared.asked("other", 99, 1.0)
    assert not shared.is_owed_by("mine", 1.0 + PATIENCE), "nobody has waited yet"
    assert shared.is_owed_by("mine", 1.1 + PATIENCE) is owed


def test_nobody_makes_room_for_itself() -> None:
    shared = sharing(mine=5)
    shared.asked("mine", 6, 0.0)
    assert not shared.is_owed_by("mine", 1.0)


def test_who_gave_a_place_lets_those_have_it_who_waited() -> None:
    """Checks that a job that released a slot doesn't compete with jobs that were waiting for a
    slot.
    """
    shared = sharing(mine=1)
    for number, other in enumerate(("first", "second")):
        shared.asked(other, 0, float(number))
    assert shared.may_ask("mine")
    shared.gave("mine", 2.0)
    shared.gone("mine", 0)
    shared.asked("later", 0, 3.0)
    assert not shared.may_ask("mine")
    shared.got("first", 0)
    assert not shared.may_ask("mine")
    shared.gone("second", 0)
    assert shared.may_ask("mine"), "who came later waits beside it"


@pytest.mark.parametrize("come", ["got", "gone", "forget"])
def test_who_has_its_place_or_never_will_waits_no_more(come: str) -> None:
    shared = sharing(mine=4)
    shared.asked("other", 0, 0.0)
    assert shared.is_owed_by("mine", 1.0)
    getattr(shared, come)("other", *(() if come == "forget" else (0,)))
    assert not shared.is_owed_by("mine", 1.0)


@given(st.dictionaries(st.sampled_from("abcde"), st.integers(0, 6), min_size=2))
def test_places_go_from_who_has_most_until_nobody_has_two_more(held: dict[str, int]) -> None:
    """Checks that slots move from the job with the most slots. With fewer slots than jobs, each job
    gets a slot in turn.
    """
    shared = sharing(**held)
    for job in held:
        shared.asked(job, 99, 0.0)
    total = sum(held.values())
    for _ in range(total):
        giver, least = max(held, key=held.__getitem__), min(held, key=held.__getitem__)
        if not shared.is_owed_by(giver, 1.0):
            break
        held[giver] -= 1
        shared.gone(giver, held[giver])
        shared.got(least, held[least])
        held[least] += 1
        assert shared.taken == total + len(held)
    owing = {job for job in held if shared.is_owed_by(job, 1.0)}
    assert max(held.values()) - min(held.values()) <= 1
    assert owing == ({job for job in held if held[job]} if total < len(held) else set())
