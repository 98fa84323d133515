"""Data as the scheduler sees it: an opaque reference, and facts about the elements."""

from __future__ import annotations

from typing import Any

import attrs
from beam_runner_model.facts import DataFacts


@attrs.frozen
class Data:
    """Reference to some elements of one collection.

    Attributes:
        ref: the host's reference, which the scheduler never inspects. The reference must be
            immutable, hashable and picklable.
        facts: facts about the elements (times in ms), which must be true. A `min_timestamp` that is
            too late lets the watermark overtake the elements.
    """

    ref: Any
    facts: DataFacts
