"""Timestamp combiners: the timestamp of a grouped output, from those of the elements in it."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from beam_runner_engine.values.times import Timestamp
from beam_runner_engine.values.windows import Window


class TimestampCombiner(enum.Enum):
    """`OutputTime` in Beam's model."""

    EARLIEST = "earliest"
    LATEST = "latest"
    END_OF_WINDOW = "end of window"


def combine_timestamps(
    combiner: TimestampCombiner, window: Window, timestamps: Iterable[Timestamp]
) -> Timestamp:
    """Returns the output timestamp (ms) of elements with these timestamps (ms) in this window.

    No timestamps at all give the end of the window. Combining combined timestamps is the same as
    combining all.
    """
    end = window.max_timestamp()
    match combiner:
        case TimestampCombiner.END_OF_WINDOW:
            return end
        case TimestampCombiner.EARLIEST:
            return min(timestamps, default=end)
        case TimestampCombiner.LATEST:
            return max(timestamps, default=end)
