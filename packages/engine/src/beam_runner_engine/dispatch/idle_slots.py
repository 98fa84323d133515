"""Selection of slots that a job releases: idle slots, and a slot for another job that has too few."""

from __future__ import annotations

from collections.abc import Collection

from beam_runner_engine.dispatch.slots import AnySlot


def find_idle_slots(places: Collection[AnySlot], limit: float) -> list[AnySlot]:
    """Returns the slots that have been idle since before `limit` (seconds on the caller's clock)."""
    return [place for place in places if place.is_idle and place.changed < limit]


def select_slot_to_release(places: Collection[AnySlot]) -> AnySlot | None:
    """Returns the slot to release for another job, or None if no slot can be released yet.

    The choice is an idle slot, otherwise a slot that runs the scheduler loop and has no pending
    request to stop. A slot that never ran a bundle is not released: otherwise two jobs could release
    slots to each other without making progress.
    """
    idle = [place for place in places if place.is_idle and place.served]
    loops = [place for place in places if place.loop and not place.giving_way]
    return next(iter((*idle[::-1], *loops)), None)
