"""Window functions as data, and the assignment of windows that needs no SDK."""

from __future__ import annotations

from typing import Any, TypeAlias

import attrs

from beam_runner_model.times import Duration, Timestamp, align_time_down
from beam_runner_model.windows import GLOBAL_WINDOW, IntervalWindow, Window


def _check_positive(instance: Any, attribute: attrs.Attribute[int], value: int) -> None:
    if value <= 0:
        raise ValueError(
            f"{type(instance).__name__}.{attribute.name} must be above 0 ms, not {value}"
        )


@attrs.frozen
class GlobalWindows:
    """Window function that assigns all elements to the global window."""


@attrs.frozen
class FixedWindows:
    """Window function with consecutive windows of `size` ms, aligned to `offset` ms."""

    size: Duration = attrs.field(validator=_check_positive)
    offset: Duration = 0


@attrs.frozen
class SlidingWindows:
    """Window function with windows of `size` ms that start every `period` ms, aligned to `offset`
    ms.
    """

    size: Duration = attrs.field(validator=_check_positive)
    period: Duration = attrs.field(validator=_check_positive)
    offset: Duration = 0


@attrs.frozen
class Sessions:
    """Window function with sessions: a session ends `gap` ms after its last element. Overlapping
    windows of a key merge.
    """

    gap: Duration = attrs.field(validator=_check_positive)


@attrs.frozen
class OpaqueWindows:
    """Window function that only an SDK can compute.

    `urn` and `payload` are the SDK's values. The engine compares the values and passes them back to
    the SDK.
    """

    urn: str
    payload: bytes = attrs.field(default=b"", repr=False)


WindowFn: TypeAlias = GlobalWindows | FixedWindows | SlidingWindows | Sessions | OpaqueWindows


def assign_windows(window_fn: WindowFn, timestamp: Timestamp) -> tuple[Window, ...]:
    """Returns the windows of an element with this timestamp (ms), latest window first.

    Raises:
        ValueError: If the window function is an `OpaqueWindows`, which only the SDK can compute.
    """
    match window_fn:
        case GlobalWindows():
            return (GLOBAL_WINDOW,)
        case FixedWindows(size, offset):
            start = align_time_down(timestamp, size, offset)
            return (IntervalWindow(start, start + size),)
        case SlidingWindows(size, period, offset):
            last = align_time_down(timestamp, period, offset)
            return tuple(
                IntervalWindow(start, start + size)
                for start in range(last, timestamp - size, -period)
            )
        case Sessions(gap):
            return (IntervalWindow(timestamp, timestamp + gap),)
        case OpaqueWindows(urn):
            raise ValueError(
                f"Can't assign windows of the window function {urn!r}: only the SDK can"
            )
