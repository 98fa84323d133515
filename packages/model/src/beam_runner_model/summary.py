"""Summary of the state of a key shard (the keys with the same hash): the watermark holds, timers and
expiries that the scheduler needs to know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import attrs

from beam_runner_model.times import Timestamp

_Holds: TypeAlias = tuple[tuple[Timestamp, int], ...]


def _sort_watermark_holds(holds: Mapping[Timestamp, int] | _Holds) -> _Holds:
    return tuple(sorted(holds.items() if isinstance(holds, Mapping) else holds))


@attrs.frozen
class ShardSummary:
    """Holds and next due times of a key shard of a stage. A new summary *replaces* the previous
    summary.

    Attributes:
        holds: pairs of a time (event time, ms) and a count, earliest first. The output watermark
            must not pass the time; the count is the number of keys, windows or timers that need the
            hold.
        next_event_timer: the earliest watermark (ms) at which a timer or trigger is due; None if
            none is set.
        next_processing_timer: the earliest processing time (ms) at which a timer or trigger is due;
            None if none is set.
        next_expiry: the earliest expiry (event time, ms) of a window; due after the watermark
            passes this time. None if no window is open.
    """

    holds: _Holds = attrs.field(default=(), converter=_sort_watermark_holds)
    next_event_timer: Timestamp | None = None
    next_processing_timer: Timestamp | None = None
    next_expiry: Timestamp | None = None

    @property
    def min_hold(self) -> Timestamp | None:
        """Earliest hold (event time, ms); None if the shard holds no watermark."""
        return self.holds[0][0] if self.holds else None


EMPTY_SUMMARY = ShardSummary()
"""Summary of a shard without state."""
