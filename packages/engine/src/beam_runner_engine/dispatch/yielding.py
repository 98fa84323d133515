"""Selection of source bundles that must stop, so that waiting bundles get their slots.

Without a request to yield, a source runs as long as it has data.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from beam_runner_engine.dispatch.bundle_queue import BundleQueue
from beam_runner_engine.dispatch.slots import AnySlot, Slot


def select_slots_that_must_yield(
    places: Collection[AnySlot], waiting: BundleQueue, may_begin: Callable[[], int]
) -> list[AnySlot]:
    """Returns the slots of sources that must yield, longest-running first.

    The function counts the waiting bundles that don't belong to sources and that get no other slot.
    It returns at most one slot for each of these bundles.

    Args:
        places: all slots of the job.
        waiting: the bundles that wait for a slot.
        may_begin: function that returns the number of bundles that can start in free slots.
    """
    if not waiting.non_source_count:
        return []  # Return early: every round calls this function, and a job can have thousands of slots.
    sources = [
        place for place in places if place.running is not None and waiting.is_source(place.running)
    ]
    staying = [place for place in sources if not place.giving_way]
    if not staying:
        return []
    free = sum(not place.is_busy for place in places)
    coming = len(sources) - len(staying) + min(free, max(0, may_begin()))
    wanted = max(0, waiting.non_source_count - coming)
    return sorted(staying, key=lambda place: place.began)[:wanted]


def compute_yield_time(place: Slot, turn: float) -> float:
    """Returns the time (seconds) until which a source's bundle keeps its slot: `turn` seconds after
    the bundle's start, or after the last request to stop that failed.
    """
    return max(place.began, place.asked) + turn
