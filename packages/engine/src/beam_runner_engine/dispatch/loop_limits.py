"""Limits of the scheduler loop, which runs a small job in one worker process. The loop is faster for
small bundles, because the server need not send each bundle to a process.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import attrs
from beam_runner_model.times import Duration

from beam_runner_engine.scheduler.commands import Bundle


@attrs.frozen
class LoopLimits:
    """Limits of the scheduler loop, which runs a small job in one worker process. Times are in ms.

    Attributes:
        bundle_ms: the maximum duration of a bundle.
        source_ms: the maximum duration of an awaited bundle. A bundle is awaited if it belongs to a
            source, whose output is visible only after its end, or if other slots could take part of
            its work.
        parallel_ms: the usual duration above which several pending bundles should run in separate
            slots.
        usual_weight: the weight of the latest bundle in the moving average of durations.
        waiting_bytes: the size of pending input above which bundles should run in separate slots.
        report_ms: the interval of reports to the server, which commits them.
        report_entries: the number of entries that triggers a report early.
        nap_ms: the longest time for which the loop waits for due work.
    """

    bundle_ms: float
    source_ms: float
    parallel_ms: float
    usual_weight: float
    waiting_bytes: int
    report_ms: float
    report_entries: int
    nap_ms: float

    def get_max_duration(self, *, awaited: bool) -> float:
        """Returns the maximum duration (ms) of a bundle in the scheduler loop."""
        return self.source_ms if awaited else self.bundle_ms

    def update_average_duration(self, before: float, took: float) -> float:
        """Returns the moving average of bundle durations (ms) after a bundle of `took` ms.

        The first bundle of a stage includes the setup of the stage, so a single bundle has limited
        weight.
        """
        return before + self.usual_weight * (took - before)

    def needs_several_slots(self, waiting: Collection[Bundle], usual: float) -> bool:
        """Returns whether the pending bundles should run in separate slots."""
        parallel = len(waiting) > 1 and usual > self.parallel_ms
        return parallel or not are_all_bundles_small(waiting, self.waiting_bytes)

    def is_report_due(self, entries: int, since: float) -> bool:
        """Returns whether to report `entries` entries now, `since` ms after the last report."""
        return (entries > 0 and since > self.report_ms) or entries > self.report_entries

    def should_wait_for_work(self, due: Duration) -> bool:
        """Returns whether an idle scheduler loop waits for work that is due in `due` ms. Otherwise,
        the loop ends and frees its slot.
        """
        return due <= self.nap_ms


def are_all_bundles_small(bundles: Iterable[Bundle], most_bytes: int) -> bool:
    """Returns whether the bundles have at most `most_bytes` of input and none is the bundle of a
    section (stages that run as one Spark job).
    """
    size = 0
    for bundle in bundles:
        if bundle.parts:
            return False
        size += sum(one.data.facts.size for one in bundle.inputs)
    return size <= most_bytes
