"""Tests of timers past the end of their window: the timers fire before the expiry, and chains of
timers that set themselves end.
"""

from __future__ import annotations

import attrs
import pytest
from beam_runner_model.strategy import MergeStatus, WindowingStrategy
from beam_runner_model.summary import EMPTY_SUMMARY
from beam_runner_model.times import END_OF_GLOBAL_WINDOW, MAX_TIMESTAMP
from beam_runner_model.window_coders import encode_window
from beam_runner_model.window_fns import (
    FixedWindows,
    Sessions,
    SlidingWindows,
    WindowFn,
    assign_windows,
)
from beam_runner_model.windows import IntervalWindow
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.keyed.state import BagState
from beam_runner_engine.keyed.stateful_records import (
    DueWork,
    ExpiredWindow,
    FiredTimer,
    StatefulSpec,
)
from beam_runner_engine.keyed.timers import Timer, TimerTable

from .stateful_host import DATA, KEY, Host, rung, started, timer

FIXED = WindowingStrategy(FixedWindows(100), allowed_lateness=10)
GLOBAL = WindowingStrategy()
SESSIONS = WindowingStrategy(
    Sessions(100), merge_status=MergeStatus.NEEDS_MERGE, allowed_lateness=10
)
EXPIRY = 109
in_any_window = pytest.mark.parametrize(
    ("strategy", "data"), [(FIXED, DATA), (GLOBAL, b"")], ids=["fixed", "global"]
)
one_bundle_or_many = pytest.mark.parametrize("commits", [False, True], ids=["one", "many"])


@pytest.mark.parametrize("strategy", [FIXED, SESSIONS], ids=["fixed", "session"])
@pytest.mark.parametrize("calls_back", [False, True], ids=["no-callback", "callback"])
@pytest.mark.parametrize(
    ("fire_time", "rings_at", "hold"),
    [
        (EXPIRY - 1, EXPIRY, EXPIRY - 1),
        (EXPIRY, EXPIRY + 1, EXPIRY),
        (EXPIRY + 1, EXPIRY + 1, EXPIRY),
        (EXPIRY + 100_000, EXPIRY + 1, EXPIRY),
        (MAX_TIMESTAMP, EXPIRY + 1, EXPIRY),
    ],
)
def test_event_time_timer_after_the_window_expiry_fires_at_the_expiry(
    strategy: WindowingStrategy, calls_back: bool, fire_time: int, rings_at: int, hold: int
) -> None:
    """Checks that the timer keeps its firing time and that its hold is limited to the expiry."""
    host = started(
        strategy, DATA, timer(fire_time, hold=fire_time), on_window_expiration=calls_back
    )
    host.commit()
    assert (hold, 1) in host.summary.holds
    wakes = [host.summary.next_event_timer, host.summary.next_expiry + 1]
    assert min(time for time in wakes if time is not None) == rings_at
    assert host.run(CurrentTimes(rings_at - 1)) == []
    first, *rest = host.run(CurrentTimes(rings_at))
    assert first == FiredTimer(timer(fire_time, hold=hold))
    rest += host.run(CurrentTimes(MAX_TIMESTAMP))
    assert rest == [ExpiredWindow(KEY, DATA, 99)] * calls_back
    host.commit()
    assert (host.summary, host.store.copy_cells()) == (EMPTY_SUMMARY, {})


@pytest.mark.parametrize("calls_back", [False, True], ids=["no-callback", "callback"])
def test_event_time_timer_after_the_global_window_fires_at_the_end_of_input(
    calls_back: bool,
) -> None:
    times = (END_OF_GLOBAL_WINDOW + 1, MAX_TIMESTAMP)
    timers = [timer(time, str(time), hold=time) for time in times]
    host = started(GLOBAL, b"", *timers, on_window_expiration=calls_back)
    host.commit()
    assert {time for time, _ in host.summary.holds} == {END_OF_GLOBAL_WINDOW}
    assert host.run(CurrentTimes(END_OF_GLOBAL_WINDOW)) == []
    due = host.run(CurrentTimes(MAX_TIMESTAMP))
    assert [each.timer.fire_time for each in due if isinstance(each, FiredTimer)] == list(times)
    host.commit()
    assert (host.summary, host.store.copy_cells()) == (EMPTY_SUMMARY, {})


@one_bundle_or_many
def test_timers_past_the_window_end_fire_ordered_by_domain_and_time(commits: bool) -> None:
    host = started(
        FIXED,
        DATA,
        timer(3000, family="clock late", processing=True),
        timer(900, family="event late"),
        timer(1000, family="clock", processing=True),
        timer(500, family="event"),
        timer(EXPIRY, family="in time"),
    )
    assert rung(host, CurrentTimes(EXPIRY + 1), commits=commits) == [
        ("in time", EXPIRY),
        ("event", 500),
        ("event late", 900),
        ("clock", 1000),
        ("clock late", 3000),
    ]
    assert (host.summary, host.store.copy_cells()) == (EMPTY_SUMMARY, {})


def test_timers_past_the_window_end_are_read_once_per_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Checks that the lookup isn't repeated for each timer, because a window can have many timers."""
    asked: list[bytes] = []
    of_window = TimerTable.list_window_timers

    def counted(table: TimerTable, key: bytes, window: bytes) -> list[Timer]:
        asked.append(key)
        return of_window(table, key, window)

    monkeypatch.setattr(TimerTable, "list_window_timers", counted)
    host = started(FIXED, DATA, *(timer(500 + n, str(n)) for n in range(100)))
    assert len(host.run(CurrentTimes(MAX_TIMESTAMP))) == 100
    assert asked == [KEY] * 2, "once for all of them, and once when the window is released"


def test_timer_past_the_end_of_a_growing_session_waits_for_the_new_end() -> None:
    host = started(SESSIONS, DATA, timer(150, hold=0))
    longer = encode_window(IntervalWindow(0, 190))
    host.admit(90, now=CurrentTimes(50), window=encode_window(IntervalWindow(90, 190)))
    assert host.run(CurrentTimes(150)) == []
    assert host.run(CurrentTimes(151)) == [FiredTimer(timer(150, hold=0, window=longer))]


def test_expiring_window_fires_its_processing_timers() -> None:
    host = started(
        FIXED,
        DATA,
        *(timer(time, processing=True, family=str(time)) for time in (1001, 1000, 10)),
        on_window_expiration=True,
    )
    host.commit()
    assert len(host.run(CurrentTimes(EXPIRY, 10))) == 1
    host.commit()
    assert host.summary.next_processing_timer == 1000
    *timers, last = host.run(CurrentTimes(EXPIRY + 1, 11))
    assert [due.timer.family for due in timers if isinstance(due, FiredTimer)] == ["1000", "1001"]
    assert isinstance(last, ExpiredWindow)
    host.commit()
    assert (host.summary, host.store.copy_cells()) == (EMPTY_SUMMARY, {})


@one_bundle_or_many
def test_pending_timer_set_again_during_a_drain_fires_once(
    commits: bool,
) -> None:
    host = started(FIXED, DATA, *(timer(500, tag, processing=True) for tag in "ab"))

    def user(rung: Timer) -> None:
        host.shard.set_timer(timer(900, "b", processing=True))

    assert rung(host, CurrentTimes(MAX_TIMESTAMP, 0, draining=True), user, commits=commits) == [
        ("f", 500),
        ("f", 500),
    ]


@in_any_window
@pytest.mark.parametrize("draining", [False, True])
def test_processing_timer_wakes_its_shard_at_the_window_end(
    strategy: WindowingStrategy, data: bytes, draining: bool
) -> None:
    host = started(strategy, data, timer(3_600_000, processing=True))
    host.commit()
    last = host.summary.next_expiry
    assert last is not None and last < MAX_TIMESTAMP
    assert host.run(CurrentTimes(last, 0)) == []
    assert len(host.run(CurrentTimes(last + 1, 0, draining=draining))) == 1
    host.commit()
    assert (host.summary, host.store.copy_cells()) == (EMPTY_SUMMARY, {})


@attrs.frozen
class Relay:
    """User code that collects elements in a bag and outputs the bag after a chain of timers.

    Each hop sets the timer of the next hop, in a separate family and time domain. The timer fires
    `later` ms after the time of the element or timer, or after the processing time. The last hop
    outputs the bag.
    """

    hops: tuple[tuple[bool, int], ...]

    def play(
        self,
        strategy: WindowingStrategy,
        times: list[int],
        nows: list[CurrentTimes],
        *,
        commits: bool,
    ) -> list[int]:
        """Returns all output values after elements at these times and a sequence of time updates."""
        host = Host(StatefulSpec(strategy, {"bag": BagState}))
        shown: list[int] = []

        def set_hop(number: int, window: bytes, time: int, clock: int) -> None:
            processing, later = self.hops[number]
            due = min((clock if processing else time) + later, MAX_TIMESTAMP)
            new = timer(due, family=str(number), processing=processing, hold=time, window=window)
            host.shard.set_timer(new)

        def user(due: DueWork, clock: int) -> None:
            assert isinstance(due, FiredTimer)
            number, window, time = int(due.timer.family), due.timer.window, due.timer.fire_time
            bag = host.shard.get_state(BagState, "bag", KEY, window)
            if number + 1 < len(self.hops):
                set_hop(number + 1, window, clock if self.hops[number][0] else time, clock)
            else:
                shown.extend(int(value) for value in bag.read())
                bag.clear()

        for value, time in enumerate(times):
            for assigned in assign_windows(strategy.window_fn, time):
                window = encode_window(assigned)
                admitted = host.shard.accept_elements([KEY], [window], [time], [b""], nows[0])
                (window,) = admitted.windows
                host.shard.get_state(BagState, "bag", KEY, window).add(b"%d" % value)
                set_hop(0, window, time, nows[0].processing_time)
                if commits:
                    host.commit()
        for now in nows:
            while (due := host.shard.take_next_due_work(now)) is not None:
                user(due, now.processing_time)
                if commits:
                    host.commit()
            host.commit()
        assert (host.summary, host.store.copy_cells()) == (EMPTY_SUMMARY, {})
        return shown


def _strategy(window_fn: WindowFn | None, lateness: int) -> WindowingStrategy:
    strategy = WindowingStrategy(allowed_lateness=lateness)
    if window_fn is not None:
        strategy = WindowingStrategy(window_fn, allowed_lateness=lateness)
    merges = isinstance(window_fn, Sessions)
    return attrs.evolve(
        strategy, merge_status=MergeStatus.NEEDS_MERGE if merges else MergeStatus.NON_MERGING
    )


@given(
    window_fn=st.sampled_from([None, FixedWindows(20), SlidingWindows(20, 10, 5), Sessions(7)]),
    lateness=st.sampled_from([0, 5]),
    hops=st.lists(
        st.tuples(st.booleans(), st.sampled_from([0, 1, 5, 20, 1000])), min_size=1, max_size=4
    ),
    times=st.lists(st.integers(0, 60), min_size=1, max_size=6),
    steps=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 50)), max_size=3),
    draining=st.booleans(),
    commits=st.booleans(),
)
def test_buffered_bag_is_emitted_completely_with_and_without_a_drain(
    window_fn: WindowFn | None,
    lateness: int,
    hops: list[tuple[bool, int]],
    times: list[int],
    steps: list[tuple[int, int]],
    draining: bool,
    commits: bool,
) -> None:
    """Uses timers in both domains that set each other, before and at the end of time."""
    strategy = _strategy(window_fn, lateness)
    nows = [CurrentTimes(0, 0)]
    for watermark, clock in steps:
        nows.append(CurrentTimes(nows[-1].watermark + watermark, nows[-1].processing_time + clock))
    nows.append(CurrentTimes(MAX_TIMESTAMP, nows[-1].processing_time, draining=draining))
    shown = Relay(tuple(hops)).play(strategy, times, nows, commits=commits)
    expected = [
        value for value, time in enumerate(times) for _ in assign_windows(strategy.window_fn, time)
    ]
    assert sorted(shown) == expected


@in_any_window
@pytest.mark.parametrize("draining", [False, True])
def test_timers_past_the_window_end_fire_one_at_a_time(
    strategy: WindowingStrategy, data: bytes, draining: bool
) -> None:
    """Checks that timers fire one at a time, so that the chain of each new timer is known."""
    places = [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2"), ("a", "3")]
    timers = [
        timer(time, tag, family=family, processing=True)
        for time, (family, tag) in enumerate(places)
    ]
    host = started(strategy, data, timer(MAX_TIMESTAMP, "1", family="event"), *timers)
    now = CurrentTimes(MAX_TIMESTAMP, 0, draining=draining)
    rung: list[tuple[str, str]] = []
    while due := host.shard.take_due_work(now, 10, looks_past=True):
        (one,) = due
        assert isinstance(one, FiredTimer)
        rung.append((one.timer.family, one.timer.tag))
    assert rung == [("event", "1"), *places]
