"""Input of stages that isn't processed yet: the input that is in no bundle, and the unprocessed part of
open bundles.

The input in open bundles counts, because a slow step can have all of its input in bundles that wait
for a slot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import attrs
from beam_runner_engine.scheduler.commands import Bundle, Input
from beam_runner_engine.scheduler.reports import count_queued_elements

from beam_runner_driver.lanes.lane import Lane
from beam_runner_driver.ledger.ledger import JobLedger


@attrs.frozen
class PendingInput:
    """Number of elements and size in bytes of a stage's unprocessed input."""

    elements: int = 0
    size: int = 0


def measure_pending_input(ledger: JobLedger, lanes: Iterable[Lane]) -> Mapping[str, PendingInput]:
    """Returns the unprocessed input of each stage.

    Args:
        ledger: the committed state of the job.
        lanes: the lanes that run a bundle. The finished fraction of their bundles doesn't count.
    """
    fractions = {lane.running.number: lane.fraction for lane in lanes if lane.running is not None}
    elements: dict[str, float] = defaultdict(float)
    sizes: dict[str, float] = defaultdict(float)
    for bundle in ledger.list_uncommitted_bundles():
        left = max(0.0, 1.0 - fractions.get(bundle.number, 0.0))
        for stage, item in _list_inputs(bundle):
            elements[stage] += left * item.data.facts.count
            sizes[stage] += left * item.data.facts.size
    found = {}
    for state in ledger.scheduler_state.stages:
        name = state.spec.name
        count = count_queued_elements(state) + round(elements[name])
        found[name] = PendingInput(count, state.waiting_bytes + round(sizes[name]))
    return found


def _list_inputs(bundle: Bundle) -> Iterator[tuple[str, Input]]:
    """Yields the inputs of a bundle with their stages. The bundle of a section has several stages."""
    for part in bundle.parts or (bundle,):
        for item in part.inputs:
            yield part.stage, item
