"""How many bundles may run at once, and how many places that is worth.

As many as there are cores, and one more for each that is blocked in user code, up to a limit: a slow call must
not stop what has nothing to do with it. Bundles that only take turns at one interpreter run one at a
time, until all that run tell that they leave time to others.
"""

from __future__ import annotations

from collections.abc import Collection

import attrs

from beam_runner_engine.dispatch.places import Patience, Place


@attrs.frozen
class Parallelism:
    """`cores` bundles can use a core at once, `most` places there may be; `takes_turns` says that all
    user code is in one interpreter.
    """

    cores: int
    most: int
    patience: Patience
    takes_turns: bool = False

    def may_begin(self, places: Collection[Place], waiting: int, now: float) -> int:
        """Returns how many more bundles may begin, of those that wait, if they have a place."""
        if not self.takes_turns:
            return waiting
        busy = sum(place.is_busy for place in places)
        return self._at_once(places) + self._blocked(places, now) - busy

    def lacking(self, places: Collection[Place], wanted: int, spare: float, now: float) -> int:
        """Returns how many more places are worth having.

        `wanted` things wait for one that is not idle; the cluster has `spare` ones. The ones more for blocked bundles
        leave as many of these as there are cores to others.
        """
        starting = sum(place.is_starting for place in places)
        count, usual_most = len(places), self._at_once(places)
        room = min(self.most, usual_most + self._blocked(places, now)) - count
        lacking = max(0, min(wanted - starting, room))
        usual = max(0, min(lacking, usual_most - count))
        left = max(0, spare - usual - self.cores)
        return usual + int(min(lacking - usual, left))

    def _at_once(self, places: Collection[Place]) -> int:
        """Returns how many bundles can use a core at once."""
        if not self.takes_turns:
            return self.cores
        busy = [place for place in places if place.is_busy]
        return self.cores if busy and all(place.waits for place in busy) else 1

    def _blocked(self, places: Collection[Place], now: float) -> int:
        return sum(
            place.is_blocked(now, self.patience, takes_turns=self.takes_turns) for place in places
        )
