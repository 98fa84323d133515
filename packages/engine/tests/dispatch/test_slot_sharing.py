"""Tests of slot sharing: jobs release slots to waiting jobs without slots or with at least two
fewer.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.dispatch.slot_sharing import SlotSharing

PATIENCE = 0.3


def sharing(**held: int) -> SlotSharing:
    """Returns a registry of jobs with these numbers of slots."""
    shared = SlotSharing(PATIENCE)
    for job, count in held.items():
        for place in range(count):
            shared.record_request(job, place, 0.0)
            shared.record_slot(job, place)
    return shared


@pytest.mark.parametrize(
    ("mine", "others", "owed"),
    [(0, 0, False), (1, 0, True), (1, 1, False), (2, 1, False), (3, 1, True), (1, 4, False)],
)
def test_job_must_release_a_slot_for_a_job_with_too_few_slots(
    mine: int, others: int, owed: bool
) -> None:
    shared = sharing(mine=mine, other=others)
    shared.record_request("other", 99, 1.0)
    assert not shared.must_release_slot("mine", 1.0 + PATIENCE), "nobody has waited yet"
    assert shared.must_release_slot("mine", 1.1 + PATIENCE) is owed


def test_job_need_not_release_a_slot_for_itself() -> None:
    shared = sharing(mine=5)
    shared.record_request("mine", 6, 0.0)
    assert not shared.must_release_slot("mine", 1.0)


def test_job_that_released_a_slot_gets_a_slot_after_earlier_requests() -> None:
    """Checks that a job that released a slot doesn't compete with jobs that were waiting for a
    slot.
    """
    shared = sharing(mine=1)
    for number, other in enumerate(("first", "second")):
        shared.record_request(other, 0, float(number))
    assert shared.can_request_slot("mine")
    shared.record_release("mine", 2.0)
    shared.remove_slot("mine", 0)
    shared.record_request("later", 0, 3.0)
    assert not shared.can_request_slot("mine")
    shared.record_slot("first", 0)
    assert not shared.can_request_slot("mine")
    shared.remove_slot("second", 0)
    assert shared.can_request_slot("mine"), "who came later waits beside it"


@pytest.mark.parametrize("come", ["record_slot", "remove_slot", "remove_job"])
def test_job_with_an_assigned_or_lost_slot_no_longer_waits(come: str) -> None:
    shared = sharing(mine=4)
    shared.record_request("other", 0, 0.0)
    assert shared.must_release_slot("mine", 1.0)
    getattr(shared, come)("other", *(() if come == "remove_job" else (0,)))
    assert not shared.must_release_slot("mine", 1.0)


@given(st.dictionaries(st.sampled_from("abcde"), st.integers(0, 6), min_size=2))
def test_slots_move_from_the_job_with_most_slots_until_balanced(held: dict[str, int]) -> None:
    """Checks that slots move from the job with the most slots. With fewer slots than jobs, each job
    gets a slot in turn.
    """
    shared = sharing(**held)
    for job in held:
        shared.record_request(job, 99, 0.0)
    total = sum(held.values())
    for _ in range(total):
        giver, least = max(held, key=held.__getitem__), min(held, key=held.__getitem__)
        if not shared.must_release_slot(giver, 1.0):
            break
        held[giver] -= 1
        shared.remove_slot(giver, held[giver])
        shared.record_slot(least, held[least])
        held[least] += 1
        assert shared.taken_slot_count == total + len(held)
    owing = {job for job in held if shared.must_release_slot(job, 1.0)}
    assert max(held.values()) - min(held.values()) <= 1
    assert owing == ({job for job in held if held[job]} if total < len(held) else set())
