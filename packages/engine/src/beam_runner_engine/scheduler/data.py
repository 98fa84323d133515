"""Data from the scheduler's view: a reference that only the caller understands, and statistics about the elements."""

from __future__ import annotations

from typing import Any

import attrs
from beam_runner_model.facts import DataStatistics


@attrs.frozen
class Data:
    """Reference to some elements of one collection.

    Attributes:
        ref: the caller's reference, which the scheduler never inspects. The reference must be
            immutable, hashable and picklable.
        facts: statistics about the elements (times in ms), which must be correct. A `min_timestamp`
            that is too late lets the watermark overtake the elements.
    """

    ref: Any
    facts: DataStatistics
