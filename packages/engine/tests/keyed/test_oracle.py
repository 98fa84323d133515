"""Tests that random strategies and schedules emit the same panes as Beam's trigger driver.

Beam's driver gets one element per call, or all consecutive elements in one call. If Beam's driver
deviates from Beam's model or from the rule that triggers are evaluated after every element, a
function below describes the deviation. The function excludes the affected strategies or schedules.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from beam_runner_model import triggers as t
from beam_runner_model.strategy import (
    AccumulationMode,
    MergeStatus,
    WindowingStrategy,
)
from beam_runner_model.timestamp_combiners import TimestampCombiner
from beam_runner_model.window_fns import (
    FixedWindows,
    Sessions,
    SlidingWindows,
    assign_windows,
)
from beam_runner_model.windows import IntervalWindow
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from beam_runner_engine.keyed.composite_triggers import create_machine
from beam_runner_engine.keyed.merging import merge_sessions

from .triggering import (
    Element,
    FiredPane,
    ProcessingTime,
    Step,
    Watermark,
    run_beam,
    run_ours,
)

START = 1_000_000
"""Event times are far above processing times, because Beam's driver confuses the two."""


def _composites(parts: st.SearchStrategy[t.Trigger]) -> st.SearchStrategy[t.Trigger]:
    several = st.lists(parts, min_size=1, max_size=3).map(tuple)
    optional = st.none() | parts
    return st.one_of(
        st.builds(t.Repeatedly, parts),
        st.builds(t.AfterEndOfWindow, optional, optional),
        st.builds(t.AfterAll, several),
        st.builds(t.AfterAny, several),
        st.builds(t.AfterEach, several),
        st.builds(t.OrFinally, parts, parts),
    )


TRIGGERS = st.recursive(
    st.one_of(
        st.sampled_from(
            [t.DefaultTrigger(), t.Always(), t.Never(), t.AfterSynchronizedProcessingTime()]
        ),
        st.builds(t.AfterCount, st.integers(1, 4)),
        st.builds(t.AfterEndOfWindow),
        st.builds(lambda delay: t.AfterProcessingTime((t.Delay(delay),)), st.integers(1, 20)),
    ),
    _composites,
    max_leaves=4,
)
STRATEGIES = st.builds(
    WindowingStrategy,
    window_fn=st.sampled_from([FixedWindows(20), SlidingWindows(20, 10, 5), Sessions(7)]),
    trigger=TRIGGERS,
    accumulation_mode=st.sampled_from(AccumulationMode),
    allowed_lateness=st.sampled_from([0, 5, 30, 1000]),
    timestamp_combiner=st.sampled_from(TimestampCombiner),
).map(
    lambda s: (
        attrs.evolve(s, merge_status=MergeStatus.NEEDS_MERGE)
        if isinstance(s.window_fn, Sessions)
        else s
    )
)


@st.composite
def schedules(draw: st.DrawFn) -> list[Step]:
    """Draws elements at any time, while the watermark and processing time only increase."""
    steps: list[Step] = []
    watermark, processing_time = START - 5, 0
    for kind in draw(st.lists(st.sampled_from("eeeewp"), min_size=1, max_size=25)):
        if kind == "e":
            steps.append(Element(START + draw(st.integers(0, 70))))
        elif kind == "w":
            watermark += draw(st.integers(1, 30))
            steps.append(Watermark(watermark))
        else:
            processing_time += draw(st.integers(1, 15))
            steps.append(ProcessingTime(processing_time))
    return steps


def _parts(trigger: t.Trigger) -> Iterable[t.Trigger]:
    """Yields a trigger and all triggers inside it."""
    yield trigger
    match trigger:
        case t.AfterEndOfWindow(early, late):
            parts: tuple[t.Trigger, ...] = tuple(p for p in (early, late) if p is not None)
        case t.AfterAll(triggers) | t.AfterAny(triggers) | t.AfterEach(triggers):
            parts = triggers
        case t.OrFinally(main, until):
            parts = (main, until)
        case t.Repeatedly(part):
            parts = (part,)
        case _:
            parts = ()
    for part in parts:
        yield from _parts(part)


def _has(trigger: t.Trigger, *kinds: type) -> bool:
    return any(isinstance(part, kinds) for part in _parts(trigger))


def _within(trigger: t.Trigger, *kinds: type) -> Iterable[t.Trigger]:
    """Yields the triggers inside those parts of a trigger that have one of these kinds."""
    for part in _parts(trigger):
        if isinstance(part, kinds):
            yield from list(_parts(part))[1:]


def _has_nested_processing_time(strategy: WindowingStrategy, schedule: list[Step]) -> bool:
    """Returns whether `AfterProcessingTime` is inside another trigger.

    Beam's `AfterProcessingTime` is ready only while its timer fires, and confuses processing time
    with the watermark. Inside other triggers, its firing is lost.
    """
    return _has(strategy.trigger, t.AfterProcessingTime) and not (
        isinstance(strategy.trigger, t.AfterProcessingTime)
        or (
            isinstance(strategy.trigger, t.Repeatedly)
            and isinstance(strategy.trigger.trigger, t.AfterProcessingTime)
        )
    )


def _has_late_end_of_window_part(strategy: WindowingStrategy, schedule: list[Step]) -> bool:
    """Returns whether an end-of-window trigger can become current after the first element.

    Beam waits for the end of a window only if an element reached the trigger that does. A later
    part of `AfterEach` or a late trigger misses the end.
    """
    return any(
        create_machine(part).depends_on_window_end
        for part in _within(strategy.trigger, t.AfterEach)
    )


def _has_element_at_the_expiry(strategy: WindowingStrategy, schedule: list[Step]) -> bool:
    """Returns whether an element arrives exactly at the expiry.

    Beam drops late data 1 ms later than Beam's model, in which a window expires at its last
    timestamp plus the allowed lateness.
    """
    watermark = 0
    for step in schedule:
        match step:
            case Watermark(time):
                watermark = time
            case Element(timestamp):
                for window in assign_windows(strategy.window_fn, timestamp):
                    if watermark == strategy.get_expiry_time(window) + 1:
                        return True
    return False


def _has_processing_time_pane_after_the_end(
    strategy: WindowingStrategy, schedule: list[Step]
) -> bool:
    """Returns whether processing time fires a pane after the end of the window.

    Beam's driver compares processing time with the window's end when it sets the timing, so such
    panes are always early.
    """
    return _has(strategy.trigger, t.AfterProcessingTime) and any(
        isinstance(step, ProcessingTime)
        and any(
            isinstance(before, Watermark) and before.time >= START for before in schedule[:number]
        )
        for number, step in enumerate(schedule)
    )


def _has_extra_firing_in_beam(strategy: WindowingStrategy, schedule: list[Step]) -> bool:
    """Returns whether a window can fire an extra pane without new elements in Beam.

    A firing in Beam's driver clears only its own timer. A window has other timers if several parts
    wait for the end of the window and late data arrives. The same happens if an element merges
    sessions that each wait for processing time.
    """
    match strategy.window_fn:
        case Sessions(gap) if _has(strategy.trigger, t.AfterProcessingTime):
            if any(len(joined) > 1 for _, joined, _ in _session_joins(schedule, gap)):
                return True
    waiting = [
        p for p in _parts(strategy.trigger) if isinstance(p, t.DefaultTrigger | t.AfterEndOfWindow)
    ]
    watermark = 0
    for step in schedule:
        match step:
            case Watermark(time):
                watermark = time
            case Element(timestamp) if len(waiting) > 1:
                for window in assign_windows(strategy.window_fn, timestamp):
                    if watermark > window.max_timestamp():
                        return True
    return False


def _session_joins(
    schedule: list[Step], gap: int
) -> Iterable[tuple[int, list[IntervalWindow], IntervalWindow]]:
    """Yields for each element the watermark, the sessions that it joins, and its own window."""
    watermark = 0
    sessions: set[IntervalWindow] = set()
    for step in schedule:
        match step:
            case Watermark(time):
                watermark = time
            case Element(timestamp):
                new = IntervalWindow(timestamp, timestamp + gap)
                joined = [s for s in sessions if s.start < new.end and new.start < s.end]
                yield watermark, joined, new
                sessions = set(merge_sessions([*sessions, new]).values())


def _has_element_in_a_closed_session(strategy: WindowingStrategy, schedule: list[Step]) -> bool:
    """Returns whether an element joins an expired session, which Beam's driver still merges."""
    match strategy.window_fn:
        case Sessions(gap):
            return any(
                watermark > strategy.get_expiry_time(session)
                for watermark, sessions, _ in _session_joins(schedule, gap)
                for session in sessions
            )
    return False


def _has_extended_ended_session(strategy: WindowingStrategy, schedule: list[Step]) -> bool:
    """Returns whether an on-time element extends a session that fired its end.

    In Beam's driver, the session stays late. In Beam's model, the session reopens and fires again
    at its new end.
    """
    match strategy.window_fn:
        case Sessions(gap):
            return any(
                session.max_timestamp() < watermark <= last
                for watermark, sessions, new in _session_joins(schedule, gap)
                for last in [max(window.max_timestamp() for window in (new, *sessions))]
                for session in sessions
            )
    return False


def _has_element_in_a_finished_session(strategy: WindowingStrategy, schedule: list[Step]) -> bool:
    """Returns whether an element joins a session with a finished trigger.

    Beam's Python driver merges such a session and drops the data of the merged sessions. Java's
    runners and this engine don't merge it.
    """
    match strategy.window_fn:
        case Sessions(gap):
            return any(
                isinstance(step, Element)
                and number > pane.step
                and step.timestamp < pane.window[1]
                and pane.window[0] < step.timestamp + gap
                for together in (False, True)
                for pane in run_ours(strategy, schedule, together=together)[0]
                if pane.is_last
                for number, step in enumerate(schedule)
            )
    return False


def _has_nested_default_trigger(strategy: WindowingStrategy, schedule: list[Step]) -> bool:
    """Returns whether `DefaultTrigger` is inside another trigger: Beam's driver loses its
    end-of-window timer when the outer trigger restarts.
    """
    return any(isinstance(part, t.DefaultTrigger) for part in list(_parts(strategy.trigger))[1:])


DEPARTURES = (
    _has_nested_default_trigger,
    _has_element_in_a_closed_session,
    _has_element_in_a_finished_session,
    _has_extended_ended_session,
    _has_extra_firing_in_beam,
    _has_processing_time_pane_after_the_end,
    _has_nested_processing_time,
    _has_late_end_of_window_part,
    _has_element_at_the_expiry,
)


def _remove_closing_panes(
    strategy: WindowingStrategy,
    schedule: list[Step],
    ours: list[FiredPane],
    theirs: list[FiredPane],
) -> tuple[list[FiredPane], list[FiredPane]]:
    """Returns the panes without closing panes, because Beam's driver never closes windows.

    At the end of the window, the `is_final_failure` flag is ignored. Panes that Beam's driver fires after
    the expiry are removed.
    """

    def is_open(pane: FiredPane) -> bool:
        watermark = max(
            (s.time for s in schedule[: pane.step + 1] if isinstance(s, Watermark)), default=0
        )
        return watermark <= strategy.get_expiry_time(IntervalWindow(*pane.window))

    said_by_both = [attrs.evolve(pane, is_last=False) for pane in theirs if not is_open(pane)]
    for pane in ours:
        if not is_open(pane):
            on_time_here = [
                p for p in said_by_both if (p.step, p.window) == (pane.step, pane.window)
            ]
            assert not on_time_here or attrs.evolve(pane, is_last=False) in on_time_here
    return [p for p in ours if is_open(p)], [p for p in theirs if is_open(p)]


def _correct_late_timing(schedule: list[Step], panes: list[FiredPane]) -> list[FiredPane]:
    """Returns the panes after correcting Beam's timing of panes with an on-time element.

    Beam's driver marks a pane that elements fire after the end of the window as late, even if an
    element in the pane is on time. In Beam's model, the first such pane is on time.
    """
    return [
        attrs.evolve(pane, timing="LATE")
        if pane.timing == "ON_TIME" and isinstance(schedule[pane.step], Element)
        else pane
        for pane in panes
    ]


def _remove_held_timestamps(strategy: WindowingStrategy, panes: list[FiredPane]) -> list[FiredPane]:
    """Returns the panes without the timestamps that Beam's driver gets wrong.

    Beam's driver keeps the hold of an early pane for the on-time pane. The timestamps of later
    panes are then not the timestamps of their elements.
    """
    result = []
    early: list[tuple[int, int]] = []
    for pane in panes:
        start, end = pane.window
        if strategy.needs_merge:
            after_early = any(a < end and start < b for a, b in early)
        else:
            after_early = pane.window in early
        if after_early and strategy.timestamp_combiner is not TimestampCombiner.END_OF_WINDOW:
            result.append(attrs.evolve(pane, timestamp=0))
        else:
            result.append(pane)
        if pane.timing == "EARLY":
            early.append(pane.window)
    return result


@settings(
    max_examples=settings().max_examples * 4,
    suppress_health_check=[HealthCheck.filter_too_much],
)
@given(STRATEGIES, schedules(), st.booleans())
def test_fired_panes_equal_beam(
    strategy: WindowingStrategy, schedule: list[Step], together: bool
) -> None:
    for departure in DEPARTURES:
        assume(not departure(strategy, schedule))
    ours, _ = run_ours(strategy, schedule, together=together)
    theirs = run_beam(strategy, schedule, together=together)
    ours = _remove_held_timestamps(strategy, _correct_late_timing(schedule, ours))
    theirs = _remove_held_timestamps(strategy, theirs)
    ours, theirs = _remove_closing_panes(strategy, schedule, ours, theirs)
    assert sorted(ours) == sorted(theirs)
