"""Commit of keyed work: the state changes of a bundle, which the caller stores."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from beam_runner_model.summary import ShardSummary

from beam_runner_engine.keyed.cells import CellDelta, CellId


@attrs.frozen
class KeyedCommit:
    """Changes that a bundle makes to the stored state of its keys, with the shard's new summary
    (holds and timers) for the scheduler.

    Attributes:
        deltas: the changed cells. The caller must store them atomically with the outputs of the
            bundle.
        summary: the new summary of the shard for the scheduler, which replaces the previous
            summary.
        dropped: the number of dropped elements, which arrived after their window expired or after
            its trigger finished.
    """

    deltas: Mapping[CellId, CellDelta]
    summary: ShardSummary
    dropped: int = 0
