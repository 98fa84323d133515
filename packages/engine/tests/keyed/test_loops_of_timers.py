"""Tests of timers that set themselves again (loops) past the end of their window."""

from __future__ import annotations

import pytest
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.summary import EMPTY_SUMMARY
from beam_runner_model.times import MAX_TIMESTAMP
from beam_runner_model.window_fns import FixedWindows

from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.keyed.stateful_records import ExpiredWindow, FiredTimer
from beam_runner_engine.keyed.timers import Timer

from .stateful_host import DATA, rung, started, timer

FIXED = WindowingStrategy(FixedWindows(100), allowed_lateness=10)
GLOBAL = WindowingStrategy()
EXPIRY = 109
in_any_window = pytest.mark.parametrize(
    ("strategy", "data"), [(FIXED, DATA), (GLOBAL, b"")], ids=["fixed", "global"]
)
one_bundle_or_many = pytest.mark.parametrize("commits", [False, True], ids=["one", "many"])


@one_bundle_or_many
@pytest.mark.parametrize("draining", [False, True], ids=["no-drain", "drain"])
def test_event_time_timer_loop_ends_after_its_window(draining: bool, commits: bool) -> None:
    host = started(FIXED, DATA, timer(10))

    def user(rung: Timer) -> None:
        host.shard.set_timer(timer(rung.fire_time + 20))

    assert rung(host, CurrentTimes(MAX_TIMESTAMP, draining=draining), user, commits=commits) == [
        ("f", time) for time in (10, 30, 50, 70, 90, 110)
    ]
    assert (host.summary, host.store.copy_cells()) == (EMPTY_SUMMARY, {})


@in_any_window
@one_bundle_or_many
def test_processing_timer_loop_continues_until_no_timer_is_set(
    strategy: WindowingStrategy, data: bytes, commits: bool
) -> None:
    """Uses bounded input without a drain, which ends only after all processing-time timers have
    fired.
    """
    host = started(strategy, data, timer(1000, family="loop", processing=True))

    def user(rung: Timer) -> None:
        if rung.family == "loop" and rung.fire_time < 5000:
            again = rung.fire_time + 2000
            host.shard.set_timer(timer(again, family="loop", processing=True, window=data))
            host.shard.set_timer(timer(50, family="event", window=data))
            host.shard.set_timer(timer(MAX_TIMESTAMP, family="beyond", window=data))

    events = [("event", 50), ("beyond", MAX_TIMESTAMP)]
    assert rung(host, CurrentTimes(MAX_TIMESTAMP, 0), user, commits=commits) == [
        ("loop", 1000),
        *events,
        ("loop", 3000),
        *events,
        ("loop", 5000),
    ]
    assert (host.summary, host.store.copy_cells()) == (EMPTY_SUMMARY, {})


@pytest.mark.parametrize(
    ("strategy", "data", "now"),
    [
        (FIXED, DATA, CurrentTimes(MAX_TIMESTAMP, 0, draining=True)),
        (GLOBAL, b"", CurrentTimes(MAX_TIMESTAMP, 0, draining=True)),
        (FIXED, DATA, CurrentTimes(EXPIRY + 1, 0)),
        (FIXED, DATA, CurrentTimes(EXPIRY + 1, 0, draining=True)),
    ],
    ids=["fixed-drain", "global-drain", "fixed-running", "fixed-drain-begins"],
)
@one_bundle_or_many
@pytest.mark.parametrize("loop", [["a"], ["a", "b"], ["a", "b", "c"]], ids=" ".join)
@pytest.mark.parametrize(
    "event_timers", [set(), {"b"}, {"a", "c"}], ids=lambda one: " and ".join(sorted(one))
)
@pytest.mark.parametrize("past", [True, False], ids=["for-the-past", "for-later"])
def test_timer_loop_in_an_expired_window_ends_after_each_timer_family_fired(
    strategy: WindowingStrategy,
    data: bytes,
    now: CurrentTimes,
    commits: bool,
    loop: list[str],
    event_timers: set[str],
    past: bool,
) -> None:
    """Uses a drain, and a running stream with an expired window. Timers of several families in both
    domains set each other in a cycle.
    """

    def new(family: str, time: int) -> Timer:
        processing = family not in event_timers
        return timer(time, family=family, processing=processing, window=data)

    host = started(strategy, data, new("a", MAX_TIMESTAMP))

    def user(rung: Timer) -> None:
        following = loop[(loop.index(rung.family) + 1) % len(loop)]
        host.shard.set_timer(new(following, 50 if past and following != "a" else MAX_TIMESTAMP))

    found = rung(host, now, user, commits=commits)
    assert [family for family, _ in found] == loop
    assert (host.summary, host.store.copy_cells()) == (EMPTY_SUMMARY, {})


@one_bundle_or_many
@pytest.mark.parametrize("calls_back", [False, True], ids=["no-callback", "callback"])
def test_event_time_timer_loop_in_the_global_window_ends_in_a_drain(
    calls_back: bool, commits: bool
) -> None:
    """Checks that the loop runs in event time before the end, and once for each pending timer after
    the end.
    """
    waits = (timer(10, "loop"), timer(15, "other"), timer(5000, "clock", processing=True))
    host = started(GLOBAL, b"", *waits, on_window_expiration=calls_back)
    told: list[ExpiredWindow] = []

    def user(rung: Timer) -> None:
        again = timer(rung.fire_time + 10, rung.tag, window=b"")
        host.shard.set_timer(again)

    def all_of(now: CurrentTimes) -> list[tuple[str, int]]:
        found = []
        while (due := host.shard.take_next_due_work(now)) is not None:
            if isinstance(due, ExpiredWindow):
                told.append(due)
                continue
            assert isinstance(due, FiredTimer)
            found.append((due.timer.tag, due.timer.fire_time))
            assert len(found) < 20, "the timers ring for ever"
            user(due.timer)
            if commits:
                host.commit()
        host.commit()
        return found

    before = [("loop", 10), ("other", 15), ("loop", 20), ("other", 25)]
    assert all_of(CurrentTimes(30, 0, draining=True)) == before
    after = [("loop", 30), ("other", 35), ("clock", 5000)]
    assert all_of(CurrentTimes(MAX_TIMESTAMP, 0, draining=True)) == after
    assert len(told) == calls_back
    assert (host.summary, host.store.copy_cells()) == (EMPTY_SUMMARY, {})


@one_bundle_or_many
def test_event_time_timer_loop_in_the_global_window_continues_after_the_input(
    commits: bool,
) -> None:
    host = started(GLOBAL, b"", timer(10))

    def user(rung: Timer) -> None:
        if rung.fire_time < 100:
            host.shard.set_timer(timer(rung.fire_time + 10, window=b""))

    assert rung(host, CurrentTimes(MAX_TIMESTAMP, 0), user, commits=commits) == [
        ("f", time) for time in range(10, 101, 10)
    ]
