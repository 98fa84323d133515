"""Stateful shards: order of timers, loops, holds, expiry, sorted input, laziness."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable

import attrs
import pytest

from beam_runner_engine.keyed.now import Now
from beam_runner_engine.keyed.state import BagState, State, ValueState
from beam_runner_engine.keyed.stateful import (
    Due,
    ElementsSorted,
    StatefulSpec,
    TimerFired,
    WindowExpired,
)
from beam_runner_engine.keyed.timers import Timer
from beam_runner_engine.values.strategy import WindowingStrategy
from beam_runner_engine.values.summary import EMPTY_SUMMARY
from beam_runner_engine.values.times import MAX_TIMESTAMP
from beam_runner_engine.values.window_coders import encode_window
from beam_runner_engine.values.window_fns import FixedWindows
from beam_runner_engine.values.windows import IntervalWindow

from .stateful_host import DATA, KEY, Host, timer

FIXED = WindowingStrategy(FixedWindows(100), allowed_lateness=10)
STATES: dict[str, type[State]] = {"seen": BagState, "last": ValueState}


def _tags(due: Iterable[Due]) -> list[str]:
    return [d.timer.tag if isinstance(d, TimerFired) else type(d).__name__ for d in due]


@pytest.mark.parametrize("commits", [False, True])
def test_timers_fire_in_order_of_time_also_those_that_timers_set(commits: bool) -> None:
    host = Host(StatefulSpec(FIXED))
    host.admit(0, now=Now(0))
    for tag, time in (("c", 30), ("a", 10), ("late", 90)):
        host.shard.set_timer(timer(time, tag))
    if commits:
        host.commit()
        assert host.summary.next_event_timer == 10

    def user(due: Due) -> None:
        if isinstance(due, TimerFired) and due.timer.tag == "a":
            host.shard.set_timer(timer(20, "b"))
            host.shard.set_timer(timer(80, "never yet"))

    assert _tags(host.run(Now(50), user)) == ["a", "b", "c"]
    host.commit()
    assert host.summary.next_event_timer == 80


def test_setting_replaces_and_clearing_takes_back() -> None:
    host = Host(StatefulSpec(FIXED))
    host.admit(0, now=Now(0))
    host.shard.set_timer(timer(10, "a", hold=5))
    host.shard.set_timer(timer(20, "b", hold=5))
    host.commit()
    assert host.summary.holds == ((5, 2),)
    host.shard.set_timer(timer(40, "a", hold=7))
    host.shard.clear_timer(KEY, DATA, "f", "b")
    host.shard.clear_timer(KEY, DATA, "f", "unknown")
    host.commit()
    assert (host.summary.holds, host.summary.next_event_timer) == (((7, 1),), 40)
    assert host.run(Now(39)) == []
    (due,) = host.run(Now(40))
    assert due == TimerFired(timer(40, "a", hold=7))
    host.commit()
    assert host.summary.holds == ()


def test_timers_change_their_time_domain() -> None:
    host = Host(StatefulSpec(FIXED))
    host.admit(0, now=Now(0))
    host.shard.set_timer(timer(10))
    host.commit()
    host.shard.set_timer(timer(20, processing=True))
    host.commit()
    assert (host.summary.next_event_timer, host.summary.next_processing_timer) == (None, 20)
    assert host.run(Now(50, 19)) == []
    assert _tags(host.run(Now(50, 20))) == [""]


def test_a_loop_of_timers_ends_where_its_window_does() -> None:
    host = Host(StatefulSpec(FIXED))
    host.admit(0, now=Now(0))
    host.shard.set_timer(timer(10))

    def user(due: Due) -> None:
        assert isinstance(due, TimerFired)
        host.shard.set_timer(timer(due.timer.fire_time + 20))

    fired = host.run(Now(MAX_TIMESTAMP), user)
    assert [due.timer.fire_time for due in fired if isinstance(due, TimerFired)] == list(
        range(10, 111, 20)  # the window closes at 110, and a timer for that moment still fires
    )
    host.commit()
    assert host.store.cells() == {}


def test_a_host_may_stop_asking_and_go_on_in_another_bundle() -> None:
    host = Host(StatefulSpec(FIXED))
    host.admit(0, now=Now(0))
    for tag, time in (("a", 10), ("b", 20)):
        host.shard.set_timer(timer(time, tag))
    assert host.shard.next_due(Now(50)) is not None
    host.commit()
    assert host.summary.next_event_timer == 20
    assert _tags(host.run(Now(50))) == ["b"]


def test_expiry_runs_user_code_then_releases_everything() -> None:
    host = Host(StatefulSpec(FIXED, STATES, on_window_expiration=True))
    host.admit(0, now=Now(0))
    host.shard.state(BagState, "seen", KEY, DATA).add(b"1")
    host.shard.set_timer(timer(500, "never", hold=50))
    host.commit()
    assert host.summary.holds == ((50, 1), (99, 1))
    assert host.summary.next_expiry == 109
    assert host.run(Now(109)) == []
    seen: list[bytes] = []

    def user(due: Due) -> None:
        assert due == WindowExpired(KEY, DATA, 99)
        seen.extend(host.shard.state(BagState, "seen", KEY, DATA).read())
        with pytest.raises(ValueError, match="while its window expires"):
            host.shard.set_timer(timer(105))

    assert len(host.run(Now(110), user)) == 1
    assert seen == [b"1"]
    host.commit()
    assert host.store.cells() == {}
    assert (host.summary.holds, host.summary.next_event_timer) == ((), None)


def test_expiry_that_is_the_last_thing_in_a_bundle_releases_too() -> None:
    host = Host(StatefulSpec(FIXED, STATES, on_window_expiration=True))
    host.admit(0, now=Now(0))
    host.shard.state(ValueState, "last", KEY, DATA).write(b"1")
    assert isinstance(host.shard.next_due(Now(110)), WindowExpired)
    host.commit()
    assert host.store.cells() == {}


def test_late_keys_hold_their_expiry() -> None:
    host = Host(StatefulSpec(FIXED, on_window_expiration=True))
    host.admit(5, now=Now(105))
    host.commit()
    assert host.summary.holds == ((109, 1),)


def test_the_global_window_expires_only_for_user_code() -> None:
    data = b""
    for calls_back in (False, True):
        host = Host(StatefulSpec(WindowingStrategy(), on_window_expiration=calls_back))
        host.admit(0, now=Now(0), window=data)
        host.shard.set_timer(timer(5, processing=True, window=data))
        host.shard.clear_timer(KEY, data, "f")
        host.commit()
        assert (host.summary.next_expiry is not None) == calls_back
        assert len(host.run(Now(MAX_TIMESTAMP))) == calls_back


def test_windows_expire_by_event_time_and_timers_in_processing_time_fire_before() -> None:
    host = Host(StatefulSpec(FIXED, STATES, on_window_expiration=True))
    host.admit(0, now=Now(0))
    for time, tag in ((1001, "later"), (1000, "late"), (10, "due")):
        host.shard.set_timer(timer(time, tag, processing=True))
    host.commit()
    assert _tags(host.run(Now(109, 10))) == ["due"]
    host.commit()
    assert host.summary.next_processing_timer == 1000
    assert _tags(host.run(Now(110, 11))) == ["late", "later", "WindowExpired"]
    host.commit()
    assert (host.summary, host.store.cells()) == (EMPTY_SUMMARY, {})


def _fired(host: Host, now: Now, user: Callable[[Timer], None], *, commits: bool) -> list[Timer]:
    """The timers that fire at a time, which `user` is called with; a bundle for each if wanted."""
    fired = []
    while (due := host.shard.next_due(now)) is not None:
        assert isinstance(due, TimerFired)
        fired.append(due.timer)
        user(due.timer)
        if commits:
            host.commit()
        assert len(fired) < 10
    host.commit()
    return fired


def _waiting_for_the_clock(
    strategy: WindowingStrategy, window: bytes, time: int, tag: str = ""
) -> Host:
    """One with an element, and a timer in processing time (ms)."""
    host = Host(StatefulSpec(strategy))
    host.admit(0, now=Now(0), window=window)
    host.shard.set_timer(timer(time, tag, processing=True, window=window))
    return host


in_any_window = pytest.mark.parametrize(
    ("strategy", "data"), [(FIXED, DATA), (WindowingStrategy(), b"")], ids=["fixed", "global"]
)


@in_any_window
@pytest.mark.parametrize("commits", [False, True])
def test_processing_time_timers_that_set_others_go_on_until_none_is_set(
    strategy: WindowingStrategy, data: bytes, commits: bool
) -> None:
    """Their window waits for them, also if the host stops after each timer."""
    host = _waiting_for_the_clock(strategy, data, 1000, "loop")

    def user(fired: Timer) -> None:
        if fired.tag == "loop" and fired.fire_time < 5000:
            again = fired.fire_time + 2000
            host.shard.set_timer(timer(again, "loop", processing=True, window=data))
            host.shard.set_timer(timer(50, "event", window=data))

    fired = _fired(host, Now(MAX_TIMESTAMP, 0), user, commits=commits)
    event = ("event", 50)
    assert [(each.tag, each.fire_time) for each in fired] == [
        ("loop", 1000),
        event,
        ("loop", 3000),
        event,
        ("loop", 5000),
    ]
    assert (host.summary, host.store.cells()) == (EMPTY_SUMMARY, {})


@in_any_window
@pytest.mark.parametrize("commits", [False, True])
def test_loops_of_processing_time_timers_end_with_their_window_in_a_drain(
    strategy: WindowingStrategy, data: bytes, commits: bool
) -> None:
    """Also if the host stops after each timer. What the loop sets in event time still fires."""
    host = _waiting_for_the_clock(strategy, data, 1000, "loop")

    def user(fired: Timer) -> None:
        if fired.tag == "loop":
            for tag, processing in (("loop", True), ("event", False)):
                host.shard.set_timer(timer(50, tag, processing=processing, window=data))

    fired = _fired(host, Now(MAX_TIMESTAMP, 0, draining=True), user, commits=commits)
    assert [each.tag for each in fired] == ["loop", "event"]
    assert (host.summary, host.store.cells()) == (EMPTY_SUMMARY, {})


@in_any_window
@pytest.mark.parametrize("draining", [False, True])
def test_the_end_of_a_window_wakes_timers_that_would_wait_for_the_clock(
    strategy: WindowingStrategy, data: bytes, draining: bool
) -> None:
    host = _waiting_for_the_clock(strategy, data, 3_600_000)
    host.commit()
    last = host.summary.next_expiry
    assert last is not None and last < MAX_TIMESTAMP
    assert host.run(Now(last, 0)) == []
    assert len(host.run(Now(last + 1, 0, draining=draining))) == 1
    host.commit()
    assert (host.summary, host.store.cells()) == (EMPTY_SUMMARY, {})


def test_a_shard_can_be_pickled_in_the_middle_of_a_bundle() -> None:
    host = Host(StatefulSpec(FIXED, STATES, on_window_expiration=True))
    host.admit(0, now=Now(0))
    for time in (10, 20, 30):
        host.shard.set_timer(timer(time, str(time)))
    host.commit()
    assert host.shard.next_due(Now(40)) == TimerFired(timer(10, "10"))
    host.shard.set_timer(timer(25, "25"))
    twin = Host(host.spec)
    twin.shard = pickle.loads(pickle.dumps(host.shard))
    due = twin.run(Now(MAX_TIMESTAMP))
    assert _tags(due) == ["20", "25", "30", "WindowExpired"]
    assert due == host.run(Now(MAX_TIMESTAMP))
    assert twin.shard.commit() == host.shard.commit()


def test_elements_of_expired_windows_are_dropped() -> None:
    host = Host(StatefulSpec(FIXED))
    other = encode_window(IntervalWindow(100, 200))
    admitted = host.shard.admit(
        [KEY] * 3, [DATA, other, DATA], [1, 101, 2], [b"", b"", b""], Now(110)
    )
    assert (list(admitted.rows), list(admitted.windows)) == ([1], [other])
    host.commit()
    assert host.dropped == 2


def test_sorted_input_comes_in_order_of_time_between_the_timers() -> None:
    strategy = attrs.evolve(FIXED, allowed_lateness=0)
    host = Host(StatefulSpec(strategy, time_sorted_input=True))
    assert host.admit(30, 10, 20, 10, now=Now(5)) == []
    host.shard.set_timer(timer(20, "t"))
    host.commit()
    assert host.summary.holds == ((10, 1), (20, 1), (30, 1))
    assert host.summary.next_event_timer == 10
    due = host.run(Now(25))
    assert due == [
        ElementsSorted(KEY, DATA, 10, (10, 10)),
        ElementsSorted(KEY, DATA, 20, (20,)),
        TimerFired(timer(20, "t")),
    ]
    host.commit()
    host.admit(30, now=Now(25))
    assert host.run(Now(MAX_TIMESTAMP)) == [ElementsSorted(KEY, DATA, 30, (30, 30))]
    host.commit()
    assert host.store.cells() == {}


def test_sorted_input_waits_for_those_that_may_still_come_late() -> None:
    host = Host(StatefulSpec(FIXED, time_sorted_input=True))
    host.admit(20, now=Now(0))
    assert host.run(Now(29)) == []
    host.admit(15, now=Now(29))
    due = host.run(Now(30))
    assert [d.timestamp for d in due if isinstance(d, ElementsSorted)] == [15, 20]


def test_a_bundle_reads_and_writes_the_keys_it_touches() -> None:
    host = Host(StatefulSpec(FIXED, STATES, on_window_expiration=True))
    many = 5_000
    keys = [b"%d" % number for number in range(many)]
    host.shard.admit(keys, [DATA] * many, [1] * many, [b""] * many, Now(0))
    for key in keys:
        host.shard.state(ValueState, "last", key, DATA).write(b"1")
        host.shard.set_timer(timer(50, key=key))
    host.commit()
    host.shard.admit(keys[:100], [DATA] * 100, [1] * 100, [b""] * 100, Now(0))
    for key in keys[:100]:
        host.shard.state(ValueState, "last", key, DATA).write(b"2")
    assert len(host.shard.commit().deltas) == 100
    assert host.store.reads <= 110


def test_state_must_be_declared() -> None:
    host = Host(StatefulSpec(FIXED, STATES))
    with pytest.raises(ValueError, match="'seen' is not declared as ValueState"):
        host.shard.state(ValueState, "seen", KEY, DATA)
    with pytest.raises(ValueError, match="the engine's own"):
        StatefulSpec(FIXED, {"~mine": BagState})


def test_a_store_that_lost_a_timer_is_told() -> None:
    host = Host(StatefulSpec(FIXED))
    host.admit(0, now=Now(0))
    host.shard.set_timer(timer(10))
    host.commit()
    for cell in [cell for cell in host.store.cells() if cell.name == "~timers"]:
        del host.store._cells[cell]
    with pytest.raises(ValueError, match="is due but the store has lost it"):
        host.run(Now(50))
