"""Which places a job gives up: those that had nothing to do for a while, and one where another job has too few."""

from __future__ import annotations

from collections.abc import Collection

from beam_runner_engine.dispatch.places import AnyPlace


def idle_since(places: Collection[AnyPlace], limit: float) -> list[AnyPlace]:
    """Returns the places that had nothing to do since before `limit`."""
    return [place for place in places if place.is_idle and place.changed < limit]


def place_to_give(places: Collection[AnyPlace]) -> AnyPlace | None:
    """Returns the place that is given up to another job: an idle one; else the one that drives the whole job, which may go
    on as long as that and is asked once to end; else none, until something ends.

    One that has done nothing yet is kept: two jobs that made room for each other would never work.
    """
    idle = [place for place in places if place.is_idle and place.served]
    loops = [place for place in places if place.loop and not place.giving_way]
    return next(iter((*idle[::-1], *loops)), None)
