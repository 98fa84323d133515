"""The summary of a key shard: all the scheduler must know about what the shard's keys keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import attrs

from beam_runner_model.times import Timestamp

_Holds: TypeAlias = tuple[tuple[Timestamp, int], ...]


def _sorted_holds(holds: Mapping[Timestamp, int] | _Holds) -> _Holds:
    return tuple(sorted(holds.items() if isinstance(holds, Mapping) else holds))


@attrs.frozen
class ShardSummary:
    """What one key shard of a stage waits for. A new summary *replaces* the shard's earlier one.

    `holds` are the times (ms) the output watermark must not pass and how many keys, windows or
    timers need each, earliest first. `next_event_timer` is the earliest watermark (ms) at which a
    timer or trigger is due, `next_processing_timer` the earliest processing time (ms). `next_expiry`
    is the earliest expiry (ms) of a window, which is due once the watermark has passed it. Each is
    None if nothing waits for it.
    """

    holds: _Holds = attrs.field(default=(), converter=_sorted_holds)
    next_event_timer: Timestamp | None = None
    next_processing_timer: Timestamp | None = None
    next_expiry: Timestamp | None = None

    @property
    def min_hold(self) -> Timestamp | None:
        """The earliest hold (ms), None without one."""
        return self.holds[0][0] if self.holds else None


EMPTY_SUMMARY = ShardSummary()
"""The summary of a shard whose keys keep nothing."""
