"""Timestamp combiners: the timestamp of a grouped output, from those of the elements in it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Any

from beam_runner_model.times import Timestamp
from beam_runner_model.windows import Window


class TimestampCombiner(enum.Enum):
    """`OutputTime` in Beam's model."""

    EARLIEST = "earliest"
    LATEST = "latest"
    END_OF_WINDOW = "end of window"


def chooses(combiner: TimestampCombiner) -> Callable[..., Any] | None:
    """Returns `min` or `max`, which chooses among the timestamps; None if they don't matter."""
    return _CHOOSES[combiner]


_CHOOSES: dict[TimestampCombiner, Callable[..., Any] | None] = {
    TimestampCombiner.EARLIEST: min,
    TimestampCombiner.LATEST: max,
    TimestampCombiner.END_OF_WINDOW: None,
}


def combine_timestamps(
    combiner: TimestampCombiner, window: Window, timestamps: Iterable[Timestamp]
) -> Timestamp:
    """Returns the output timestamp (ms) of elements with these timestamps (ms) in this window.

    No timestamps at all give the end of the window. Combining combined timestamps is the same as
    combining all.
    """
    end = window.max_timestamp()
    choose = chooses(combiner)
    return end if choose is None else choose(timestamps, default=end)
