"""The windowing strategy of a collection: its windows, when they fire, and what becomes of late
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
    """Whether the windows of a key must be merged when it is grouped."""

    NON_MERGING = "non-merging"
    NEEDS_MERGE = "needs merge"
    ALREADY_MERGED = "already merged"


class AccumulationMode(enum.Enum):
    """What a pane holds: what is new since the last one, or all there has been."""

    DISCARDING = "discarding"
    ACCUMULATING = "accumulating"


class ClosingBehavior(enum.Enum):
    """Whether a window that expires with nothing new since its last pane fires once more."""

    EMIT_IF_NONEMPTY = "emit if nonempty"
    EMIT_ALWAYS = "emit always"


class OnTimeBehavior(enum.Enum):
    """Whether the on-time pane fires when there is nothing new in it."""

    FIRE_ALWAYS = "fire always"
    FIRE_IF_NONEMPTY = "fire if nonempty"


@attrs.frozen
class WindowingStrategy:
    """How a collection is windowed and triggered (`WindowingStrategy` in `beam_runner_api.proto`).

    `allowed_lateness` is in ms. The defaults are those of a pipeline that says nothing.
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
    def _natural_coder(self) -> WindowCoder:
        if isinstance(self.window_fn, GlobalWindows):
            return WindowCoder.GLOBAL
        return (
            WindowCoder.CUSTOM
            if isinstance(self.window_fn, OpaqueWindows)
            else WindowCoder.INTERVAL
        )

    @property
    def merges(self) -> bool:
        """Whether grouping by this strategy must merge the windows of each key."""
        return self.merge_status is MergeStatus.NEEDS_MERGE

    def expiry(self, window: Window) -> Timestamp:
        """Returns the last time (ms) the window is open, its end plus the allowed lateness.

        Once the watermark is beyond it the window is gone. Always below `MAX_TIMESTAMP`, so that
        every window is gone when the watermark reaches that.
        """
        return self.expiry_after(window.max_timestamp())

    def expiry_after(self, end: Timestamp) -> Timestamp:
        """Returns the same for the window whose last timestamp (ms) is `end`."""
        return min(end + self.allowed_lateness, MAX_TIMESTAMP - 1)
