"""Windowing strategy of a collection: the window function, the trigger and the handling of late
data.
"""

from __future__ import annotations

import enum

import attrs

from beam_runner_model.times import MAX_TIMESTAMP, Duration, Timestamp
from beam_runner_model.timestamp_combiners import TimestampCombiner
from beam_runner_model.triggers import DefaultTrigger, Trigger
from beam_runner_model.window_coders import WindowCoder
from beam_runner_model.window_fns import GlobalWindows, OpaqueWindows, WindowFn
from beam_runner_model.windows import Window


class MergeStatus(enum.Enum):
    """Whether grouping must merge the windows of each key."""

    NON_MERGING = "non-merging"
    NEEDS_MERGE = "needs merge"
    ALREADY_MERGED = "already merged"


class AccumulationMode(enum.Enum):
    """Content of a pane: only elements since the previous pane, or all elements of the window so
    far.
    """

    DISCARDING = "discarding"
    ACCUMULATING = "accumulating"


class ClosingBehavior(enum.Enum):
    """Whether a window fires once more at expiry if no element arrived since the last pane."""

    EMIT_IF_NONEMPTY = "emit if nonempty"
    EMIT_ALWAYS = "emit always"


class OnTimeBehavior(enum.Enum):
    """Whether the on-time pane fires if the pane contains no new elements."""

    FIRE_ALWAYS = "fire always"
    FIRE_IF_NONEMPTY = "fire if nonempty"


@attrs.frozen
class WindowingStrategy:
    """Windowing and triggering of a collection (`WindowingStrategy` in `beam_runner_api.proto`).

    `allowed_lateness` is in ms. The defaults match a pipeline without explicit windowing.
    """

    window_fn: WindowFn = attrs.field(factory=GlobalWindows)
    window_coder: WindowCoder = attrs.field()
    merge_status: MergeStatus = MergeStatus.NON_MERGING
    trigger: Trigger = attrs.field(factory=DefaultTrigger)
    accumulation_mode: AccumulationMode = AccumulationMode.DISCARDING
    allowed_lateness: Duration = 0
    timestamp_combiner: TimestampCombiner = TimestampCombiner.END_OF_WINDOW
    closing_behavior: ClosingBehavior = ClosingBehavior.EMIT_IF_NONEMPTY
    on_time_behavior: OnTimeBehavior = OnTimeBehavior.FIRE_ALWAYS

    @window_coder.default
    def _default_coder(self) -> WindowCoder:
        if isinstance(self.window_fn, GlobalWindows):
            return WindowCoder.GLOBAL
        return (
            WindowCoder.CUSTOM
            if isinstance(self.window_fn, OpaqueWindows)
            else WindowCoder.INTERVAL
        )

    @property
    def needs_merge(self) -> bool:
        """Whether grouping with this strategy must merge the windows of each key."""
        return self.merge_status is MergeStatus.NEEDS_MERGE

    def get_expiry_time(self, window: Window) -> Timestamp:
        """Returns the last time (event time, ms) at which a window is open: the window's end plus
        the allowed lateness.

        A window expires when the watermark passes this time. The result is below `MAX_TIMESTAMP`,
        so every window expires before the watermark reaches `MAX_TIMESTAMP`.
        """
        return self.compute_expiry(window.max_timestamp())

    def compute_expiry(self, end: Timestamp) -> Timestamp:
        """Returns the last time (event time, ms) at which a window with the last timestamp `end`
        (ms) is open.
        """
        return min(end + self.allowed_lateness, MAX_TIMESTAMP - 1)
