"""Timestamp combiners, which compute the timestamp of a grouped output from the elements'
timestamps.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Any

from beam_runner_model.times import Timestamp
from beam_runner_model.windows import Window


class TimestampCombiner(enum.Enum):
    """Timestamp combiner of a windowing strategy (`OutputTime` in Beam's model)."""

    EARLIEST = "earliest"
    LATEST = "latest"
    END_OF_WINDOW = "end of window"


def get_timestamp_selector(combiner: TimestampCombiner) -> Callable[..., Any] | None:
    """Returns `min` or `max`, which selects a timestamp; None if the combiner ignores the
    timestamps.
    """
    return _CHOOSES[combiner]


_CHOOSES: dict[TimestampCombiner, Callable[..., Any] | None] = {
    TimestampCombiner.EARLIEST: min,
    TimestampCombiner.LATEST: max,
    TimestampCombiner.END_OF_WINDOW: None,
}


def combine_timestamps(
    combiner: TimestampCombiner, window: Window, timestamps: Iterable[Timestamp]
) -> Timestamp:
    """Returns the output timestamp (ms) for elements with these timestamps (ms) in this window.

    Without timestamps, the result is the end of the window. The timestamps can themselves be
    results of this function.
    """
    end = window.max_timestamp()
    choose = get_timestamp_selector(combiner)
    return end if choose is None else choose(timestamps, default=end)
