"""Number of bundles that can run at the same time, and number of slots that a job should have.

The number equals the number of cores, plus one for each bundle that is blocked in user code, up to
a limit. A slow call in user code therefore doesn't stop unrelated work. If all user code shares one
interpreter, only one bundle runs. More bundles can start only while every running bundle is blocked,
or reports that it waits outside the interpreter.
"""

from __future__ import annotations

from collections.abc import Collection

import attrs

from beam_runner_engine.dispatch.slots import BlockedTimeLimits, Slot


@attrs.frozen
class ParallelismRules:
    """Rules for the number of running bundles and slots.

    Attributes:
        cores: the number of bundles that can use a core at the same time.
        most: the maximum number of slots.
        patience: the times after which a bundle counts as blocked.
        takes_turns: whether all user code shares one interpreter (GIL).
    """

    cores: int
    most: int
    patience: BlockedTimeLimits
    takes_turns: bool = False

    def count_startable_bundles(self, places: Collection[Slot], waiting: int, now: float) -> int:
        """Returns how many of the `waiting` bundles can start now, if slots are free."""
        if not self.takes_turns:
            return waiting
        busy = sum(place.is_busy for place in places)
        return self._count_parallel_bundles(places) + self._count_blocked_slots(places, now) - busy

    def count_missing_slots(
        self, places: Collection[Slot], wanted: int, spare: float, now: float
    ) -> int:
        """Returns the number of additional slots that the job should request.

        Args:
            places: the current slots.
            wanted: the number of bundles that wait for a slot.
            spare: the number of free slots in the cluster. Slots for blocked bundles leave `cores`
                free slots to other jobs.
            now: the current time, in seconds.
        """
        starting = sum(place.is_starting for place in places)
        count, usual_most = len(places), self._count_parallel_bundles(places)
        room = min(self.most, usual_most + self._count_blocked_slots(places, now)) - count
        lacking = max(0, min(wanted - starting, room))
        usual = max(0, min(lacking, usual_most - count))
        left = max(0, spare - usual - self.cores)
        return usual + int(min(lacking - usual, left))

    def _count_parallel_bundles(self, places: Collection[Slot]) -> int:
        """Returns the number of bundles that can use a core at the same time."""
        if not self.takes_turns:
            return self.cores
        busy = [place for place in places if place.is_busy]
        return self.cores if busy and all(place.waits for place in busy) else 1

    def _count_blocked_slots(self, places: Collection[Slot], now: float) -> int:
        return sum(
            place.is_blocked(now, self.patience, takes_turns=self.takes_turns) for place in places
        )
