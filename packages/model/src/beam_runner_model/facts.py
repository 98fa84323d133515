"""Statistics about encoded data, which travel with a reference to the data."""

from __future__ import annotations

import attrs

from beam_runner_model.times import MAX_TIMESTAMP, Timestamp
from beam_runner_model.windows import Window


@attrs.frozen
class DataStatistics:
    """Statistics about encoded data, which are available without reading the data.

    Attributes:
        count: the number of elements.
        size: the size of all elements, in bytes.
        min_timestamp: a lower bound (event time, ms) of the elements' timestamps; `MAX_TIMESTAMP`
            if there are no elements.
        shard: the key shard of the elements; None if the elements aren't keyed.
        windows: all windows of the elements; None if there are too many windows to list.
        work: the number of bytes that the elements represent, if they are sized restrictions.
    """

    count: int = 0
    size: int = 0
    min_timestamp: Timestamp = MAX_TIMESTAMP
    shard: int | None = None
    windows: frozenset[Window] | None = frozenset()
    work: int | None = None
