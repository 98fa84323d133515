"""Comparison of windowing: windows, triggers and lateness of a stage that an update keeps.

Open windows can stay only if their timers stay where the code looks for them. A timer's position
depends on the trigger and on the allowed lateness, so these can change only while no window is open.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.updates import Finding, FindingReason
from beam_runner_model.window_fns import OpaqueWindows, WindowFn

from beam_runner_planner.updates.coders import compare_coders
from beam_runner_planner.updates.pairs import StagePair
from beam_runner_planner.updates.pickles import digest_pickle


def compare_strategies(pair: StagePair) -> Iterator[Finding]:
    """Yields the findings about the windowing of a stage's input."""
    old, new = pair.old.strategy, pair.new.strategy
    if old is None or new is None:
        return
    kind = _compare_window_kinds(pair, old, new)
    if kind is not None:
        yield kind
    if not pair.old.is_keyed:
        return
    if kind is None and has_other_window_sizes(old.window_fn, new.window_fn):
        yield pair.create_kept_finding(
            FindingReason.WINDOW_SIZE,
            before=describe_windows(old.window_fn),
            after=describe_windows(new.window_fn),
        )
    for reason, before, after in _list_windowing_changes(pair, old, new):
        yield pair.create_change_finding(
            reason, has_data=pair.contents.has_state, before=before, after=after
        )


def _compare_window_kinds(
    pair: StagePair, old: WindowingStrategy, new: WindowingStrategy
) -> Finding | None:
    """Returns the finding about a different kind of windows; None if the kinds are the same.

    Stages without keys only pass windows on, so the encoding of their windows is enough.
    """
    is_same = not compare_coders(pair.old.window_coder, pair.new.window_coder)
    if pair.old.is_keyed:
        is_same = (
            is_same
            and is_same_window_fn_kind(old.window_fn, new.window_fn)
            and old.merge_status is new.merge_status
        )
    if is_same:
        return None
    return pair.create_change_finding(
        FindingReason.WINDOW_KIND,
        has_data=not pair.contents.is_empty,
        trusted=pair.consents.are_coders_trusted(pair.steps),
        before=describe_windows(old.window_fn),
        after=describe_windows(new.window_fn),
    )


def _list_windowing_changes(
    pair: StagePair, old: WindowingStrategy, new: WindowingStrategy
) -> Iterator[tuple[FindingReason, str, str]]:
    """Yields findings about changes that affect the timers of open windows."""
    if old.allowed_lateness != new.allowed_lateness:
        yield FindingReason.LATENESS, f"{old.allowed_lateness} ms", f"{new.allowed_lateness} ms"
    if pair.old.plan.stateful is not None:
        return  # A stateful step has no trigger and no panes.
    if old.trigger != new.trigger:
        yield FindingReason.TRIGGER, str(old.trigger), str(new.trigger)
    if old.accumulation_mode is not new.accumulation_mode:
        yield FindingReason.ACCUMULATION, old.accumulation_mode.value, new.accumulation_mode.value
    before, after = _describe_accumulation_and_panes(old), _describe_accumulation_and_panes(new)
    if before != after:
        yield FindingReason.PANES, before, after


def _describe_accumulation_and_panes(strategy: WindowingStrategy) -> str:
    parts = (strategy.timestamp_combiner, strategy.closing_behavior, strategy.on_time_behavior)
    return ", ".join(str(part.value) for part in parts)


def is_same_window_fn_kind(old: WindowFn, new: WindowFn) -> bool:
    """Returns whether two window functions differ at most in sizes.

    The engine can't look into the parameters of custom windows, so they must be equal.
    """
    if isinstance(old, OpaqueWindows) and isinstance(new, OpaqueWindows):
        same = [(one.urn, digest_pickle(one.payload)) for one in (old, new)]
        return same[0] == same[1]
    return type(old) is type(new)


def has_other_window_sizes(old: WindowFn, new: WindowFn) -> bool:
    """Returns whether two window functions of the same kind have different sizes."""
    return not isinstance(old, OpaqueWindows) and old != new


def describe_windows(window_fn: WindowFn) -> str:
    """Returns a text that describes the windows, for example ``FixedWindows(size=10000 ms)``."""
    if isinstance(window_fn, OpaqueWindows):
        return f"custom windows {window_fn.urn}"
    values = attrs.asdict(window_fn)
    sizes = ", ".join(f"{name}={value} ms" for name, value in values.items() if value)
    return f"{type(window_fn).__name__}({sizes})" if sizes else type(window_fn).__name__
