"""Which work is for a loop in one place, when the loop tells what it has done, and when it has outgrown it: small
bundles cost less there, one by one, than their way to other places.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import attrs
from beam_runner_model.times import Duration

from beam_runner_engine.scheduler.commands import Bundle


@attrs.frozen
class LoopLimits:
    """What a loop may take on; times are in ms.

    A bundle may take `bundle_ms`, an awaited one `source_ms`: a source's, of which what it puts out is seen only after
    its end, or one of which other places could have a part. Where
    several wait whose usual ones take more than `parallel_ms`, or more than `waiting_bytes` wait, places side
    by side do better. The last bundle counts for `usual_weight` in what is usual. What was done
    is told, to be committed, every `report_ms`, and after `report_entries` entries; and for what is due within `nap_ms`
    the loop waits.
    """

    bundle_ms: float
    source_ms: float
    parallel_ms: float
    usual_weight: float
    waiting_bytes: int
    report_ms: float
    report_entries: int
    nap_ms: float

    def longest(self, *, awaited: bool) -> float:
        """Returns how long a bundle may take in the loop (ms)."""
        return self.source_ms if awaited else self.bundle_ms

    def usual(self, before: float, took: float) -> float:
        """Returns what is usual (ms) after a bundle took so long; the first of a stage builds it, so one alone does
        not count for much.
        """
        return before + self.usual_weight * (took - before)

    def is_outgrown(self, waiting: Collection[Bundle], usual: float) -> bool:
        """Says whether what waits is better done in places side by side."""
        parallel = len(waiting) > 1 and usual > self.parallel_ms
        return parallel or not is_small(waiting, self.waiting_bytes)

    def is_time_to_tell(self, entries: int, since: float) -> bool:
        """Says whether so many entries are told, where something was told `since` ms ago."""
        return (entries > 0 and since > self.report_ms) or entries > self.report_entries

    def waits_for(self, due: Duration) -> bool:
        """Says whether a loop that has nothing to run waits for what is due after so long (ms): else it is left, and
        nobody holds the place.
        """
        return due <= self.nap_ms


def is_small(bundles: Iterable[Bundle], most_bytes: int) -> bool:
    """Says whether bundles have no more than so many bytes to read, and none is a section."""
    size = 0
    for bundle in bundles:
        if bundle.parts:
            return False
        size += sum(one.data.facts.size for one in bundle.inputs)
    return size <= most_bytes
