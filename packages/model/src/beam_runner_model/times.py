"""Event and processing time: integers that count milliseconds since the Unix epoch.

The bounds are those of Beam's model (`BeamConstants` in `beam_runner_api.proto`): every time
between `MIN_TIMESTAMP` and `MAX_TIMESTAMP` can also be told in microseconds in 64 bits.
"""

from __future__ import annotations

from typing import TypeAlias

Timestamp: TypeAlias = int
"""A point in time, in milliseconds since the Unix epoch."""

Duration: TypeAlias = int
"""A length of time, in milliseconds."""

MIN_TIMESTAMP: Timestamp = -9_223_372_036_854_775
"""Before all events: the watermark of an input that has told nothing yet."""

MAX_TIMESTAMP: Timestamp = 9_223_372_036_854_775
"""After all events: the watermark of an input that has ended."""

END_OF_GLOBAL_WINDOW: Timestamp = MAX_TIMESTAMP - 24 * 60 * 60 * 1000
"""The last time inside the global window, a day before `MAX_TIMESTAMP`."""


def last_aligned(time: Timestamp, period: Duration, offset: Duration) -> Timestamp:
    """Returns the last `offset + n * period` (ms) that is not after `time`."""
    return time - (time - offset) % period


def next_aligned(time: Timestamp, period: Duration, offset: Duration) -> Timestamp:
    """Returns the first `offset + n * period` (ms) after `time`.

    It may lie beyond `MAX_TIMESTAMP`, where windows may begin but nothing happens: what waits for
    it takes it clamped.
    """
    return last_aligned(time, period, offset) + period


def clamp(time: int) -> Timestamp:
    """Returns the time nearest to `time` between `MIN_TIMESTAMP` and `MAX_TIMESTAMP`."""
    if time < MIN_TIMESTAMP:
        return MIN_TIMESTAMP
    if time > MAX_TIMESTAMP:
        return MAX_TIMESTAMP
    return time


def plus(time: Timestamp, duration: Duration) -> Timestamp:
    """Returns `time + duration`, stopped at the bounds of time."""
    return clamp(time + duration)


def passing_watermark(time: Timestamp) -> Timestamp:
    """Returns the earliest watermark (ms) that has passed a time.

    A watermark that is at a time hasn't passed it: elements of that very time are still on time.
    Nothing is beyond `MAX_TIMESTAMP`, so that watermark has passed every time.
    """
    return min(time + 1, MAX_TIMESTAMP)
