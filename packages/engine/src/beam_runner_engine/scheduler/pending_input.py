"""Input of stages that isn't processed yet: the input that is in no bundle, and the unprocessed part of
open bundles.

The input in open bundles counts, because a slow step can have all of its input in bundles that wait
for a slot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import attrs

from beam_runner_engine.scheduler.state import BundleRecord, SchedulerState, StageState, Work


@attrs.frozen
class PendingInput:
    """Number of elements and size in bytes of a stage's unprocessed input."""

    elements: int = 0
    size: int = 0


def measure_pending_input(
    state: SchedulerState, fractions: Mapping[int, float]
) -> Mapping[str, PendingInput]:
    """Returns the unprocessed input of each stage, at a cost linear in the pieces of work.

    Args:
        state: the state of the scheduler.
        fractions: the finished fractions of running bundles, by the number of the bundle.
    """
    elements: dict[int, float] = defaultdict(float)
    sizes: dict[int, float] = defaultdict(float)
    # A split shrinks the work in the record of a bundle.
    for number, record in state.bundles.items():
        left = max(0.0, 1.0 - fractions.get(number, 0.0))
        for stage, works in _list_work_by_stage(record):
            elements[stage] += left * sum(work.data.facts.count for work in works)
            sizes[stage] += left * sum(work.data.facts.size for work in works)
    return {
        one.spec.name: PendingInput(
            _count_queued_elements(one) + round(elements[one.number]),
            one.waiting_bytes + round(sizes[one.number]),
        )
        for one in state.stages
    }


def _list_work_by_stage(record: BundleRecord) -> Iterator[tuple[int, Sequence[Work]]]:
    """Yields the work of a bundle by the number of its stage. The bundle of a section has several stages."""
    if not record.parts:
        yield record.stage, record.work
    for part in record.parts:
        yield part.stage, part.work


def _count_queued_elements(stage: StageState) -> int:
    """Returns the number of elements of a stage that are in no bundle. Residuals that wait for a
    processing time don't count.
    """
    queued = [
        work for shard in stage.shards.values() for works in shard.ready.values() for work in works
    ]
    # Work that waits for several windows of side inputs is in several lists.
    blocked = {
        work.number: work
        for side in stage.sides
        for waiting in side.waiting.values()
        for _, work in waiting
    }
    return sum(work.data.facts.count for work in (*queued, *blocked.values()))
