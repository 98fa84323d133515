"""What is known about data without looking at it: the facts that travel with a reference to it."""

from __future__ import annotations

import attrs

from beam_runner_model.times import MAX_TIMESTAMP, Timestamp
from beam_runner_model.windows import Window


@attrs.frozen
class DataFacts:
    """Facts about some encoded elements that lie together.

    `count` elements of `size` bytes in all, none earlier than `min_timestamp` (ms); no elements
    have no earliest one and say `MAX_TIMESTAMP`. `shard` is the key shard they belong to, None if
    they are not keyed. `windows` are all the windows the elements are in, None if there are too
    many to tell. `work` is how many bytes they stand for, where they are restrictions that say so.
    """

    count: int = 0
    size: int = 0
    min_timestamp: Timestamp = MAX_TIMESTAMP
    shard: int | None = None
    windows: frozenset[Window] | None = frozenset()
    work: int | None = None
