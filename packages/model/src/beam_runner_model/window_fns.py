"""Window functions as data, and the windows that those the engine can compute assign."""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs

from beam_runner_model.times import Duration, Timestamp, last_aligned
from beam_runner_model.windows import GLOBAL_WINDOW, IntervalWindow, Window


def _positive(instance: Any, attribute: attrs.Attribute[int], value: int) -> None:
    if value <= 0:
        raise ValueError(
            f"{type(instance).__name__}.{attribute.name} must be above 0 ms, not {value}"
        )


@attrs.frozen
class GlobalWindows:
    """Everything in one window."""


@attrs.frozen
class FixedWindows:
    """Windows of `size` ms side by side; one of them starts at `offset` ms."""

    size: Duration = attrs.field(validator=_positive)
    offset: Duration = 0


@attrs.frozen
class SlidingWindows:
    """Windows of `size` ms of which one starts every `period` ms; one of them starts at `offset`
    ms.
    """

    size: Duration = attrs.field(validator=_positive)
    period: Duration = attrs.field(validator=_positive)
    offset: Duration = 0


@attrs.frozen
class Sessions:
    """Windows that begin with an element and end `gap` ms after the last one; windows of a key
    that overlap merge.
    """

    gap: Duration = attrs.field(validator=_positive)


@attrs.frozen
class OpaqueWindows:
    """A window function that only an SDK can compute.

    `urn` and `payload` are what the SDK said; the engine compares them and hands them back.
    """

    urn: str
    payload: bytes = attrs.field(default=b"", repr=False)


WindowFn: TypeAlias = GlobalWindows | FixedWindows | SlidingWindows | Sessions | OpaqueWindows


def assign_windows(window_fn: WindowFn, timestamp: Timestamp) -> tuple[Window, ...]:
    """Returns the windows of an element with this timestamp (ms), the latest first.

    Raises ValueError for `OpaqueWindows`: only the SDK can compute those.
    """
    match window_fn:
        case GlobalWindows():
            return (GLOBAL_WINDOW,)
        case FixedWindows(size, offset):
            start = last_aligned(timestamp, size, offset)
            return (IntervalWindow(start, start + size),)
        case SlidingWindows(size, period, offset):
            last = last_aligned(timestamp, period, offset)
            return tuple(
                IntervalWindow(start, start + size)
                for start in range(last, timestamp - size, -period)
            )
        case Sessions(gap):
            return (IntervalWindow(timestamp, timestamp + gap),)
        case OpaqueWindows(urn):
            raise ValueError(f"only the SDK can assign the windows of {urn!r}")
