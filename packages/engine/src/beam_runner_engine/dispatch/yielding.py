"""Which sources give way to others that wait for a place: they would go on for as long as they give something."""

from __future__ import annotations

from collections.abc import Callable, Collection

from beam_runner_engine.dispatch.places import AnyPlace, Place
from beam_runner_engine.dispatch.waiting import WaitingBundles


def in_the_way(
    places: Collection[AnyPlace], waiting: WaitingBundles, may_begin: Callable[[], int]
) -> list[AnyPlace]:
    """Returns the places of sources that others wait for, those first that have run for longest.

    `may_begin` says how many more bundles may begin in places that are free. No more sources give way than
    bundles of no source wait, less those that find a place anyway.
    """
    sources = [
        place for place in places if place.running is not None and waiting.is_source(place.running)
    ]
    staying = [place for place in sources if not place.giving_way]
    if not staying:
        return []  # every round asks, and to count what waits takes time
    free = sum(not place.is_busy for place in places)
    coming = len(sources) - len(staying) + min(free, max(0, may_begin()))
    wanted = max(0, waiting.not_of_sources - coming)
    return sorted(staying, key=lambda place: place.began)[:wanted]


def turn_ends(place: Place, turn: float) -> float:
    """Returns until when a source keeps its place, whose turn takes so many seconds: from its beginning, or
    from when it was asked last and gave nothing away.
    """
    return max(place.began, place.asked) + turn
