"""Event time and processing time, as integers in milliseconds since the Unix epoch.

The bounds are the bounds of Beam's model (`BeamConstants` in `beam_runner_api.proto`). Every time
between `MIN_TIMESTAMP` and `MAX_TIMESTAMP` fits into 64 bits in microseconds.
"""

from __future__ import annotations

from typing import TypeAlias

Timestamp: TypeAlias = int
"""Point in time, in milliseconds since the Unix epoch."""

Duration: TypeAlias = int
"""Duration in milliseconds."""

MIN_TIMESTAMP: Timestamp = -9_223_372_036_854_775
"""Timestamp before all events: the watermark of an input without any watermark report."""

MAX_TIMESTAMP: Timestamp = 9_223_372_036_854_775
"""Timestamp after all events: the watermark of a finished input."""

END_OF_GLOBAL_WINDOW: Timestamp = MAX_TIMESTAMP - 24 * 60 * 60 * 1000
"""Last timestamp in the global window, one day before `MAX_TIMESTAMP`."""


def align_time_down(time: Timestamp, period: Duration, offset: Duration) -> Timestamp:
    """Returns the last `offset + n * period` (ms) that isn't after `time`."""
    return time - (time - offset) % period


def align_time_after(time: Timestamp, period: Duration, offset: Duration) -> Timestamp:
    """Returns the first `offset + n * period` (ms) after `time`.

    The result can exceed `MAX_TIMESTAMP`, because a window can start at such a time. Callers that
    set a timer must clamp the result.
    """
    return align_time_down(time, period, offset) + period


def clamp_timestamp(time: int) -> Timestamp:
    """Returns `time`, limited to the range from `MIN_TIMESTAMP` to `MAX_TIMESTAMP`."""
    if time < MIN_TIMESTAMP:
        return MIN_TIMESTAMP
    if time > MAX_TIMESTAMP:
        return MAX_TIMESTAMP
    return time


def add_clamped_duration(time: Timestamp, duration: Duration) -> Timestamp:
    """Returns `time + duration`, limited to the range from `MIN_TIMESTAMP` to `MAX_TIMESTAMP`."""
    return clamp_timestamp(time + duration)


def get_earliest_watermark_after(time: Timestamp) -> Timestamp:
    """Returns the smallest watermark (ms) that has passed a time.

    A watermark equal to a time hasn't passed the time: elements with that timestamp are still on
    time. No watermark exceeds `MAX_TIMESTAMP`, so `MAX_TIMESTAMP` counts as having passed every
    time.
    """
    return min(time + 1, MAX_TIMESTAMP)
