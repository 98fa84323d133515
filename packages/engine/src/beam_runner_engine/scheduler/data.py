"""Data as the scheduler sees it: an opaque reference and the facts about what it stands for."""

from __future__ import annotations

from typing import Any

import attrs
from beam_runner_model.facts import DataFacts


@attrs.frozen
class Data:
    """Some elements of one collection that lie together.

    `ref` belongs to the host: the scheduler hands it back and never looks into it. It must be
    picklable for snapshots, immutable and hashable. `facts` (see `DataFacts`; times in ms) must be
    true: a `min_timestamp` that is too late lets the watermark overtake the data.
    """

    ref: Any
    facts: DataFacts
