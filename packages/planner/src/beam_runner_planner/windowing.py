"""Conversion of windowing strategies from protocol buffers to the engine's records."""

from __future__ import annotations

from collections.abc import Iterable

from beam_runner_model.strategy import (
    AccumulationMode,
    ClosingBehavior,
    MergeStatus,
    OnTimeBehavior,
    WindowingStrategy,
)
from beam_runner_model.timestamp_combiners import TimestampCombiner
from beam_runner_model.triggers import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterEndOfWindow,
    AfterProcessingTime,
    AfterSynchronizedProcessingTime,
    AlignTo,
    Always,
    DefaultTrigger,
    Delay,
    Never,
    OrFinally,
    Repeatedly,
    Trigger,
)
from beam_runner_model.window_coders import WindowCoder
from beam_runner_model.window_fns import (
    FixedWindows,
    GlobalWindows,
    OpaqueWindows,
    Sessions,
    SlidingWindows,
    WindowFn,
)
from beam_runner_urns import coders as coder_urns
from beam_runner_urns import windows as window_urns

from beam_runner_planner import _protos
from beam_runner_planner.sdks import get_environment, is_go_sdk, is_python_sdk

# If a strategy omits a field, use the default of Beam's SDKs.
_TIMESTAMP_COMBINERS = {
    _protos.OutputTime.LATEST_IN_PANE: TimestampCombiner.LATEST,
    _protos.OutputTime.EARLIEST_IN_PANE: TimestampCombiner.EARLIEST,
}
_MERGE_STATUSES = {
    _protos.MergeStatus.NEEDS_MERGE: MergeStatus.NEEDS_MERGE,
    _protos.MergeStatus.ALREADY_MERGED: MergeStatus.ALREADY_MERGED,
}
_ACCUMULATION_MODES = {_protos.AccumulationMode.ACCUMULATING: AccumulationMode.ACCUMULATING}
_ONCE_TIME_GOES_ON = AfterProcessingTime((Delay(1),))
_ON_TIME_BEHAVIORS = {_protos.OnTimeBehavior.FIRE_IF_NONEMPTY: OnTimeBehavior.FIRE_IF_NONEMPTY}
_WINDOW_CODERS = {
    coder_urns.GLOBAL_WINDOW: WindowCoder.GLOBAL,
    coder_urns.INTERVAL_WINDOW: WindowCoder.INTERVAL,
    coder_urns.CUSTOM_WINDOW: WindowCoder.CUSTOM,
}


def convert_windowing_strategy(
    proto: _protos.WindowingStrategy, components: _protos.Components
) -> WindowingStrategy:
    """Converts a windowing strategy to the engine's record; times are in milliseconds.

    The strategy's windows must be readable (see `window_coders`).

    Raises:
        ValueError: a trigger is invalid.
    """
    return WindowingStrategy(
        window_fn=convert_window_fn(proto.window_fn),
        window_coder=_WINDOW_CODERS[components.coders[proto.window_coder_id].spec.urn],
        merge_status=_MERGE_STATUSES.get(proto.merge_status, MergeStatus.NON_MERGING),
        trigger=_convert_strategy_trigger(proto, components),
        accumulation_mode=_ACCUMULATION_MODES.get(
            proto.accumulation_mode, AccumulationMode.DISCARDING
        ),
        allowed_lateness=proto.allowed_lateness,
        timestamp_combiner=_TIMESTAMP_COMBINERS.get(
            proto.output_time, TimestampCombiner.END_OF_WINDOW
        ),
        closing_behavior=_convert_closing_behavior(proto, components),
        on_time_behavior=_ON_TIME_BEHAVIORS.get(proto.on_time_behavior, OnTimeBehavior.FIRE_ALWAYS),
    )


def convert_window_fn(spec: _protos.FunctionSpec) -> WindowFn:
    """Converts a window function to the engine's class: `OpaqueWindows` unless the Beam model
    defines the function.
    """
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


def _convert_strategy_trigger(
    proto: _protos.WindowingStrategy, components: _protos.Components
) -> Trigger:
    asked = convert_trigger(proto.trigger)
    is_go = is_go_sdk(get_environment(proto, components))
    return _convert_trigger_for_go(asked) if is_go else asked


def _convert_trigger_for_go(asked: Trigger) -> Trigger:
    """Converts a trigger of the Go SDK, so that its panes are the panes that Go's tests and Go's own
    runner expect.

    A trigger that waits for processing time once drops all later elements. So the other SDKs refuse
    it or log a warning. Go does neither, and emits the remaining elements when the window closes.
    In Go, synchronized processing time passes an element's time when the clock advances, not with
    the next element.
    """
    match asked:
        case AfterProcessingTime():
            return AfterEach((asked, Never()))
        case AfterSynchronizedProcessingTime():
            return AfterEach((_ONCE_TIME_GOES_ON, Never()))
        case Repeatedly(AfterSynchronizedProcessingTime()):
            return Repeatedly(_ONCE_TIME_GOES_ON)
        case _:
            return asked


def convert_trigger(proto: _protos.Trigger) -> Trigger:
    """Converts a trigger to the engine's class; a missing trigger becomes the default trigger.

    Raises:
        ValueError: a composite trigger has no parts.
    """
    match proto.WhichOneof("trigger"):
        case None | "default":
            return DefaultTrigger()
        case "always":
            return Always()
        case "never":
            return Never()
        case "element_count":
            return AfterCount(max(1, proto.element_count.element_count))
        case "after_processing_time":
            transforms = proto.after_processing_time.timestamp_transforms
            return AfterProcessingTime(tuple(map(_convert_timestamp_transform, transforms)))
        case "after_synchronized_processing_time":
            return AfterSynchronizedProcessingTime()
        case "after_end_of_window":
            ends = proto.after_end_of_window
            return AfterEndOfWindow(
                early=convert_trigger(ends.early_firings)
                if ends.HasField("early_firings")
                else None,
                late=convert_trigger(ends.late_firings) if ends.HasField("late_firings") else None,
            )
        case "after_all":
            return AfterAll(_convert_triggers(proto.after_all.subtriggers))
        case "after_any":
            return AfterAny(_convert_triggers(proto.after_any.subtriggers))
        case "after_each":
            return AfterEach(_convert_triggers(proto.after_each.subtriggers))
        case "or_finally":
            return OrFinally(
                convert_trigger(proto.or_finally.main),
                convert_trigger(getattr(proto.or_finally, "finally")),
            )
        case "repeat":
            return Repeatedly(convert_trigger(proto.repeat.subtrigger))
        case kind:
            raise ValueError(f"the trigger {kind!r} isn't a trigger of the Beam model")


def _convert_triggers(protos: Iterable[_protos.Trigger]) -> tuple[Trigger, ...]:
    return tuple(map(convert_trigger, protos))


def _convert_timestamp_transform(proto: _protos.TimestampTransform) -> Delay | AlignTo:
    if proto.WhichOneof("timestamp_transform") == "align_to":
        return AlignTo(proto.align_to.period, proto.align_to.offset)
    return Delay(proto.delay.delay_millis)


def _convert_closing_behavior(
    proto: _protos.WindowingStrategy, components: _protos.Components
) -> ClosingBehavior:
    """Returns the closing behavior of a strategy, except for the Python SDK.

    Python has no way to set the closing behavior and always sends EMIT_ALWAYS
    (``Windowing.to_runner_api``). None of its runners or tests expects empty last panes.
    """
    if proto.closing_behavior != _protos.ClosingBehavior.EMIT_ALWAYS:
        return ClosingBehavior.EMIT_IF_NONEMPTY
    if is_python_sdk(get_environment(proto, components)):
        return ClosingBehavior.EMIT_IF_NONEMPTY
    return ClosingBehavior.EMIT_ALWAYS
