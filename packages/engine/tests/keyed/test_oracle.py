"""Random strategies and schedules fire the same panes as Beam's own trigger driver.

Beam's driver is fed one element a call, or all that follow
each other in one. Where it departs from the model, or from the rule that triggers are evaluated after
every element, a departure below says so in one rule and excludes, by what the strategy or the schedule
is, what the rule concerns.
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

from beam_runner_engine.keyed.composite_triggers import machine
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
"""Event times are far above processing times, which Beam's driver mixes up (see departures)."""


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
    """Elements anywhere in time, while the watermark and processing time only go on."""
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
    """Returns a trigger and all triggers in it."""
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
    """Returns the triggers inside those parts of a trigger that are of these kinds."""
    for part in _parts(trigger):
        if isinstance(part, kinds):
            yield from list(_parts(part))[1:]


def _processing_time_inside(strategy: WindowingStrategy, schedule: list[Step]) -> bool:
    """Beam's `AfterProcessingTime` is ready only in the moment its timer fires, and takes
    processing time for the watermark: inside other triggers it is forgotten.
    """
    return _has(strategy.trigger, t.AfterProcessingTime) and not (
        isinstance(strategy.trigger, t.AfterProcessingTime)
        or (
            isinstance(strategy.trigger, t.Repeatedly)
            and isinstance(strategy.trigger.trigger, t.AfterProcessingTime)
        )
    )


def _end_inside_each(strategy: WindowingStrategy, schedule: list[Step]) -> bool:
    """Beam waits for the end of a window only if an element met the trigger that does: a part of
    `AfterEach`, or a late trigger, that is reached later never hears of it.
    """
    return any(machine(part).watches_end for part in _within(strategy.trigger, t.AfterEach))


def _arrives_at_the_bound(strategy: WindowingStrategy, schedule: list[Step]) -> bool:
    """Beam drops late data when the watermark is beyond end + lateness, a millisecond later than
    the model, where a window expires at its last timestamp + lateness.
    """
    watermark = 0
    for step in schedule:
        match step:
            case Watermark(time):
                watermark = time
            case Element(timestamp):
                for window in assign_windows(strategy.window_fn, timestamp):
                    if watermark == strategy.expiry(window) + 1:
                        return True
    return False


def _processing_time_after_the_end(strategy: WindowingStrategy, schedule: list[Step]) -> bool:
    """Beam takes processing time for the watermark when it says what a pane's timing is: panes
    that processing time fires are always early.
    """
    return _has(strategy.trigger, t.AfterProcessingTime) and any(
        isinstance(step, ProcessingTime)
        and any(
            isinstance(before, Watermark) and before.time >= START for before in schedule[:number]
        )
        for number, step in enumerate(schedule)
    )


def _fires_once_more(strategy: WindowingStrategy, schedule: list[Step]) -> bool:
    """What fires in Beam takes back only its own timer; a window that has others fires once more,
    with nothing new. That is so when several parts wait for the end of the window and late data
    comes, and when an element makes one of sessions that each wait for processing time.
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
    """Returns for each element the watermark, the sessions that it joins, and its own window."""
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


def _joins_a_closed_session(strategy: WindowingStrategy, schedule: list[Step]) -> bool:
    """Beam's driver never closes windows: sessions that have expired still merge."""
    match strategy.window_fn:
        case Sessions(gap):
            return any(
                watermark > strategy.expiry(session)
                for watermark, sessions, _ in _session_joins(schedule, gap)
                for session in sessions
            )
    return False


def _extends_an_ended_session(strategy: WindowingStrategy, schedule: list[Step]) -> bool:
    """In Beam's driver a session whose end has fired stays late when an element that is on time
    extends it; in the model it goes back, and has an end to fire at again.
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


def _joins_a_finished_session(strategy: WindowingStrategy, schedule: list[Step]) -> bool:
    """In Beam's driver for Python a session whose trigger has finished still merges, and drops what
    it merges with; in Java's and ours it doesn't merge.
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


def _default_inside(strategy: WindowingStrategy, schedule: list[Step]) -> bool:
    """Beam's `DefaultTrigger` forgets the end of the window when a trigger around it starts over."""
    return any(isinstance(part, t.DefaultTrigger) for part in list(_parts(strategy.trigger))[1:])


DEPARTURES = (
    _default_inside,
    _joins_a_closed_session,
    _joins_a_finished_session,
    _extends_an_ended_session,
    _fires_once_more,
    _processing_time_after_the_end,
    _processing_time_inside,
    _end_inside_each,
    _arrives_at_the_bound,
)


def _without_closing(
    strategy: WindowingStrategy,
    schedule: list[Step],
    ours: list[FiredPane],
    theirs: list[FiredPane],
) -> tuple[list[FiredPane], list[FiredPane]]:
    """Beam's driver never closes windows: panes we fire when the watermark is beyond a window's
    expiry it doesn't fire, or, at the end of the window, without saying that they are the last;
    and it may fire on.
    """

    def is_open(pane: FiredPane) -> bool:
        watermark = max(
            (s.time for s in schedule[: pane.step + 1] if isinstance(s, Watermark)), default=0
        )
        return watermark <= strategy.expiry(IntervalWindow(*pane.window))

    said_by_both = [attrs.evolve(pane, is_last=False) for pane in theirs if not is_open(pane)]
    for pane in ours:
        if not is_open(pane):
            on_time_here = [
                p for p in said_by_both if (p.step, p.window) == (pane.step, pane.window)
            ]
            assert not on_time_here or attrs.evolve(pane, is_last=False) in on_time_here
    return [p for p in ours if is_open(p)], [p for p in theirs if is_open(p)]


def _without_late_for_on_time(schedule: list[Step], panes: list[FiredPane]) -> list[FiredPane]:
    """Beam's driver says late of a pane that elements fire after the end of the window, even if an
    element on time is in it; in the model the first such pane is on time.
    """
    return [
        attrs.evolve(pane, timing="LATE")
        if pane.timing == "ON_TIME" and isinstance(schedule[pane.step], Element)
        else pane
        for pane in panes
    ]


def _without_kept_holds(strategy: WindowingStrategy, panes: list[FiredPane]) -> list[FiredPane]:
    """Beam's driver keeps the hold of an early pane for the on-time pane, so that the timestamps
    of panes after it are not those of what is in them.
    """
    result = []
    early: list[tuple[int, int]] = []
    for pane in panes:
        start, end = pane.window
        if strategy.merges:
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
def test_same_panes_as_beam(
    strategy: WindowingStrategy, schedule: list[Step], together: bool
) -> None:
    for departure in DEPARTURES:
        assume(not departure(strategy, schedule))
    ours, _ = run_ours(strategy, schedule, together=together)
    theirs = run_beam(strategy, schedule, together=together)
    ours = _without_kept_holds(strategy, _without_late_for_on_time(schedule, ours))
    theirs = _without_kept_holds(strategy, theirs)
    ours, theirs = _without_closing(strategy, schedule, ours, theirs)
    assert sorted(ours) == sorted(theirs)
