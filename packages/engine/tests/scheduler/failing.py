"""Model of failures for tests: an independent implementation of the rules in `retries` for one
bundle.
"""

from __future__ import annotations

from collections import Counter

import attrs

from beam_runner_engine.scheduler.commands import Bundle
from beam_runner_engine.scheduler.events import FailureKind
from beam_runner_engine.scheduler.specs import Limits, Pauses


@attrs.frozen
class Paused:
    """Paused bundle, with the processing time (ms) at which the next attempt starts."""

    bundle: Bundle
    due: int


@attrs.define
class Failed:
    """Counts of the failures of one bundle so far."""

    counts: Counter[FailureKind] = attrs.field(factory=Counter)
    outages_in_a_row: int = 0
    away_since: int = 0

    def pause(self, kind: FailureKind, limits: Limits, now: int, *, scripted: bool) -> int | None:
        """Counts a failure and returns the pause (ms) that follows, or None if the job fails."""
        self.counts[kind] += 1
        if kind is FailureKind.UNAVAILABLE:
            self.outages_in_a_row += 1
            if self.outages_in_a_row == 1:
                self.away_since = now
        else:
            self.outages_in_a_row = 0
        if kind is FailureKind.PERMANENT:
            return None
        if scripted:
            return None if self.is_last_without_clock(kind, limits) else 0
        user, outside = self.counts[FailureKind.USER], self.counts[FailureKind.OUTSIDE]
        match kind:
            case FailureKind.USER:
                return None if user == limits.user_attempts else doubled(limits.pauses, user)
            case FailureKind.OUTSIDE:
                last = outside == limits.outside_attempts
                return None if last else doubled(limits.pauses, outside - 1)
            case _:
                limit = limits.outage_limit
                if limit is not None and now - self.away_since >= limit:
                    return None
                return doubled(limits.outage_pauses, self.outages_in_a_row)

    def is_last_without_clock(self, kind: FailureKind, limits: Limits) -> bool:
        if kind is FailureKind.USER:
            return self.counts[kind] == (limits.user_attempts or 4)
        lost = self.counts[FailureKind.OUTSIDE] + self.outages_in_a_row
        return lost >= (limits.outside_attempts or 4)


def doubled(pauses: Pauses, failures: int) -> int:
    """Returns the pause after this number of failures, by doubling once per failure."""
    pause = pauses.shortest if failures else 0
    for _ in range(failures - 1):
        pause = min(2 * pause, pauses.longest)
    return min(pause, pauses.longest)
