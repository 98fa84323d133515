"""A commit: what a bundle of keyed work leaves behind for the host to make permanent."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from beam_runner_model.summary import ShardSummary

from beam_runner_engine.keyed.cells import CellDelta, CellId


@attrs.frozen
class KeyedCommit:
    """All that a bundle changed in a shard.

    The host stores `deltas` together with the bundle's outputs, or neither; `summary` goes to the
    scheduler, where it replaces what the shard said before; `dropped` elements came too late or for
    a window whose trigger was finished.
    """

    deltas: Mapping[CellId, CellDelta]
    summary: ShardSummary
    dropped: int = 0
