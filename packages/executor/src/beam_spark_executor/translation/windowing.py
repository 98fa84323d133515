"""Windowing strategies: from protocol buffers to the engine's records."""

from __future__ import annotations

from beam_runner_engine.values.strategy import MergeStatus, WindowingStrategy
from beam_runner_engine.values.timestamp_combiners import TimestampCombiner
from beam_runner_engine.values.window_coders import WindowCoder
from beam_runner_engine.values.window_fns import (
    FixedWindows,
    GlobalWindows,
    OpaqueWindows,
    Sessions,
    SlidingWindows,
    WindowFn,
)
from beam_runner_urns import coders as coder_urns
from beam_runner_urns import windows as window_urns

from beam_spark_executor import _protos

_TIMESTAMP_COMBINERS = {
    _protos.OutputTime.END_OF_WINDOW: TimestampCombiner.END_OF_WINDOW,
    _protos.OutputTime.LATEST_IN_PANE: TimestampCombiner.LATEST,
    _protos.OutputTime.EARLIEST_IN_PANE: TimestampCombiner.EARLIEST,
}
_MERGE_STATUSES = {
    _protos.MergeStatus.NON_MERGING: MergeStatus.NON_MERGING,
    _protos.MergeStatus.NEEDS_MERGE: MergeStatus.NEEDS_MERGE,
    _protos.MergeStatus.ALREADY_MERGED: MergeStatus.ALREADY_MERGED,
}


def windowing_strategy(
    proto: _protos.WindowingStrategy, components: _protos.Components
) -> WindowingStrategy:
    """What grouping a bounded collection must know of its strategy; times in milliseconds.

    The trigger is left at the default: a bounded collection with any other is rejected before.

    Raises:
        ValueError: the window coder is none that the engine can read.
    """
    return WindowingStrategy(
        window_fn=window_fn(proto.window_fn),
        window_coder=_window_coder(components.coders[proto.window_coder_id]),
        merge_status=_MERGE_STATUSES.get(proto.merge_status, MergeStatus.NON_MERGING),
        timestamp_combiner=_TIMESTAMP_COMBINERS.get(
            proto.output_time, TimestampCombiner.END_OF_WINDOW
        ),
    )


def window_fn(spec: _protos.FunctionSpec) -> WindowFn:
    """A window function as the engine knows it: opaque unless it is one of the model's own."""
    match spec.urn:
        case window_urns.GLOBAL_WINDOWS:
            return GlobalWindows()
        case window_urns.FIXED_WINDOWS:
            fixed = _protos.FixedWindowsPayload.FromString(spec.payload)
            return FixedWindows(fixed.size.ToMilliseconds(), fixed.offset.ToMilliseconds())
        case window_urns.SLIDING_WINDOWS:
            sliding = _protos.SlidingWindowsPayload.FromString(spec.payload)
            return SlidingWindows(
                sliding.size.ToMilliseconds(),
                sliding.period.ToMilliseconds(),
                sliding.offset.ToMilliseconds(),
            )
        case window_urns.SESSION_WINDOWS:
            session = _protos.SessionWindowsPayload.FromString(spec.payload)
            return Sessions(session.gap_size.ToMilliseconds())
        case _:
            return OpaqueWindows(spec.urn, spec.payload)


def _window_coder(coder: _protos.Coder) -> WindowCoder:
    match coder.spec.urn:
        case coder_urns.GLOBAL_WINDOW:
            return WindowCoder.GLOBAL
        case coder_urns.INTERVAL_WINDOW:
            return WindowCoder.INTERVAL
        case urn:
            raise ValueError(f"windows with the coder {urn!r}")
