"""Selection of sources that must yield their slots to waiting bundles.

Without a request to yield, a source runs as long as it has data.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from beam_runner_engine.dispatch.places import AnySlot, Slot
from beam_runner_engine.dispatch.waiting import BundleQueue


def select_yielding_slots(
    places: Collection[AnySlot], waiting: BundleQueue, may_begin: Callable[[], int]
) -> list[AnySlot]:
    """Returns the slots of sources that must yield, longest-running first.

    The result has at most as many slots as waiting bundles that don't belong to sources and find no
    free slot. `may_begin` returns the number of bundles that can start in free slots.
    """
    sources = [
        place for place in places if place.running is not None and waiting.is_source(place.running)
    ]
    staying = [place for place in sources if not place.giving_way]
    if not staying:
        return []  # Return early: every round calls this function, and counting the waiting bundles takes time.
    free = sum(not place.is_busy for place in places)
    coming = len(sources) - len(staying) + min(free, max(0, may_begin()))
    wanted = max(0, waiting.non_source_count - coming)
    return sorted(staying, key=lambda place: place.began)[:wanted]


def compute_yield_time(place: Slot, turn: float) -> float:
    """Returns the time (seconds) until which a source keeps its slot: `turn` seconds after its
    start or after its last failed yield request.
    """
    return max(place.began, place.asked) + turn
