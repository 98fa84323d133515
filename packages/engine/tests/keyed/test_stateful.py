"""Tests of stateful shards: timer order, holds, expiry, sorted input and lazy reads."""

from __future__ import annotations

import pickle
from collections.abc import Iterable

import attrs
import pytest
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.summary import EMPTY_SUMMARY
from beam_runner_model.times import MAX_TIMESTAMP
from beam_runner_model.window_coders import encode_window
from beam_runner_model.window_fns import FixedWindows
from beam_runner_model.windows import IntervalWindow

from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.keyed.state import BagState, State, ValueState
from beam_runner_engine.keyed.stateful_records import (
    DueWork,
    ExpiredWindow,
    FiredTimer,
    SortedElements,
    StatefulSpec,
)

from .stateful_host import DATA, KEY, Host, timer

FIXED = WindowingStrategy(FixedWindows(100), allowed_lateness=10)
STATES: dict[str, type[State]] = {"seen": BagState, "last": ValueState}


def _tags(due: Iterable[DueWork]) -> list[str]:
    return [d.timer.tag if isinstance(d, FiredTimer) else type(d).__name__ for d in due]


@pytest.mark.parametrize("commits", [False, True])
def test_timers_fire_in_order_of_time(commits: bool) -> None:
    host = Host(StatefulSpec(FIXED))
    host.admit(0, now=CurrentTimes(0))
    for tag, time in (("c", 30), ("a", 10), ("late", 90)):
        host.shard.set_timer(timer(time, tag))
    if commits:
        host.commit()
        assert host.summary.next_event_timer == 11

    def user(due: DueWork) -> None:
        if isinstance(due, FiredTimer) and due.timer.tag == "a":
            host.shard.set_timer(timer(20, "b"))
            host.shard.set_timer(timer(80, "never yet"))

    assert _tags(host.run(CurrentTimes(50), user)) == ["a", "b", "c"]
    host.commit()
    assert host.summary.next_event_timer == 81


def test_timer_set_again_is_replaced_and_cleared_timer_is_removed() -> None:
    host = Host(StatefulSpec(FIXED))
    host.admit(0, now=CurrentTimes(0))
    host.shard.set_timer(timer(10, "a", hold=5))
    host.shard.set_timer(timer(20, "b", hold=5))
    host.commit()
    assert host.summary.holds == ((5, 2),)
    host.shard.set_timer(timer(40, "a", hold=7))
    host.shard.clear_timer(KEY, DATA, "f", "b")
    host.shard.clear_timer(KEY, DATA, "f", "unknown")
    host.commit()
    assert (host.summary.holds, host.summary.next_event_timer) == (((7, 1),), 41)
    assert host.run(CurrentTimes(40)) == []
    (due,) = host.run(CurrentTimes(41))
    assert due == FiredTimer(timer(40, "a", hold=7))
    host.commit()
    assert host.summary.holds == ()


def test_timer_can_change_its_time_domain() -> None:
    host = Host(StatefulSpec(FIXED))
    host.admit(0, now=CurrentTimes(0))
    host.shard.set_timer(timer(10))
    host.commit()
    host.shard.set_timer(timer(20, processing=True))
    host.commit()
    assert (host.summary.next_event_timer, host.summary.next_processing_timer) == (None, 20)
    assert host.run(CurrentTimes(50, 19)) == []
    assert _tags(host.run(CurrentTimes(50, 20))) == [""]


def test_due_work_not_taken_in_a_bundle_remains_for_the_next_bundle() -> None:
    host = Host(StatefulSpec(FIXED))
    host.admit(0, now=CurrentTimes(0))
    for tag, time in (("a", 10), ("b", 20)):
        host.shard.set_timer(timer(time, tag))
    assert host.shard.take_next_due_work(CurrentTimes(50)) is not None
    host.commit()
    assert host.summary.next_event_timer == 21
    assert _tags(host.run(CurrentTimes(50))) == ["b"]


def test_window_expiry_runs_user_code_and_releases_state() -> None:
    host = Host(StatefulSpec(FIXED, STATES, on_window_expiration=True))
    host.admit(0, now=CurrentTimes(0))
    host.shard.get_state(BagState, "seen", KEY, DATA).add(b"1")
    host.shard.set_timer(timer(90, "cleared", hold=50))
    host.commit()
    assert host.summary.holds == ((50, 1), (99, 1))
    assert host.summary.next_expiry == 109
    host.shard.clear_timer(KEY, DATA, "f", "cleared")
    assert host.run(CurrentTimes(109)) == []
    seen: list[bytes] = []

    def user(due: DueWork) -> None:
        assert due == ExpiredWindow(KEY, DATA, 99)
        seen.extend(host.shard.get_state(BagState, "seen", KEY, DATA).read())
        with pytest.raises(ValueError, match="its window is expiring"):
            host.shard.set_timer(timer(105))

    assert len(host.run(CurrentTimes(110), user)) == 1
    assert seen == [b"1"]
    host.commit()
    assert host.store.copy_cells() == {}
    assert (host.summary.holds, host.summary.next_event_timer) == ((), None)


def test_window_expiry_at_the_end_of_a_bundle_releases_state() -> None:
    host = Host(StatefulSpec(FIXED, STATES, on_window_expiration=True))
    host.admit(0, now=CurrentTimes(0))
    host.shard.get_state(ValueState, "last", KEY, DATA).write(b"1")
    assert isinstance(host.shard.take_next_due_work(CurrentTimes(110)), ExpiredWindow)
    host.commit()
    assert host.store.copy_cells() == {}


def test_key_with_a_late_element_holds_the_watermark_until_its_window_expires() -> None:
    host = Host(StatefulSpec(FIXED, on_window_expiration=True))
    host.admit(5, now=CurrentTimes(105))
    host.commit()
    assert host.summary.holds == ((109, 1),)


def test_global_window_expires_only_if_user_code_has_an_expiry_callback() -> None:
    data = b""
    for calls_back in (False, True):
        host = Host(StatefulSpec(WindowingStrategy(), on_window_expiration=calls_back))
        host.admit(0, now=CurrentTimes(0), window=data)
        host.shard.set_timer(timer(5, processing=True, window=data))
        host.shard.clear_timer(KEY, data, "f")
        host.commit()
        assert (host.summary.next_expiry is not None) == calls_back
        assert len(host.run(CurrentTimes(MAX_TIMESTAMP))) == calls_back


def test_stateful_shard_unpickled_within_a_bundle_continues_the_bundle() -> None:
    host = Host(StatefulSpec(FIXED, STATES, on_window_expiration=True))
    host.admit(0, now=CurrentTimes(0))
    for time in (10, 20, 30):
        host.shard.set_timer(timer(time, str(time)))
    host.commit()
    assert host.shard.take_next_due_work(CurrentTimes(40)) == FiredTimer(timer(10, "10"))
    host.shard.set_timer(timer(25, "25"))
    twin = Host(host.spec)
    twin.shard = pickle.loads(pickle.dumps(host.shard))
    due = twin.run(CurrentTimes(MAX_TIMESTAMP))
    assert _tags(due) == ["20", "25", "30", "ExpiredWindow"]
    assert due == host.run(CurrentTimes(MAX_TIMESTAMP))
    assert twin.shard.finish_bundle() == host.shard.finish_bundle()


def test_element_of_an_expired_window_is_dropped() -> None:
    host = Host(StatefulSpec(FIXED))
    other = encode_window(IntervalWindow(100, 200))
    admitted = host.shard.accept_elements(
        [KEY] * 3, [DATA, other, DATA], [1, 101, 2], [b"", b"", b""], CurrentTimes(110)
    )
    assert (list(admitted.rows), list(admitted.windows)) == ([1], [other])
    host.commit()
    assert host.dropped == 2


def test_sorted_input_is_ordered_by_time_with_timers() -> None:
    strategy = attrs.evolve(FIXED, allowed_lateness=0)
    host = Host(StatefulSpec(strategy, time_sorted_input=True))
    assert host.admit(30, 10, 20, 10, now=CurrentTimes(5)) == []
    host.shard.set_timer(timer(20, "t"))
    host.commit()
    assert host.summary.holds == ((10, 1), (20, 1), (30, 1))
    assert host.summary.next_event_timer == 11
    due = host.run(CurrentTimes(25))
    assert due == [
        SortedElements(KEY, DATA, 10, (10, 10)),
        SortedElements(KEY, DATA, 20, (20,)),
        FiredTimer(timer(20, "t")),
    ]
    host.commit()
    host.admit(30, now=CurrentTimes(25))
    assert host.run(CurrentTimes(MAX_TIMESTAMP)) == [SortedElements(KEY, DATA, 30, (30, 30))]
    host.commit()
    assert host.store.copy_cells() == {}


def test_sorted_input_waits_for_the_allowed_lateness() -> None:
    host = Host(StatefulSpec(FIXED, time_sorted_input=True))
    host.admit(20, now=CurrentTimes(0))
    assert host.run(CurrentTimes(30)) == []
    host.admit(15, now=CurrentTimes(30))
    due = host.run(CurrentTimes(31))
    assert [d.timestamp for d in due if isinstance(d, SortedElements)] == [15, 20]


def test_sorted_input_after_its_window_is_due_at_the_expiry() -> None:
    """Uses timestamps after the window, which outputs of timers and groups can have."""
    host = Host(StatefulSpec(FIXED, STATES, on_window_expiration=True, time_sorted_input=True))
    host.admit(500, 20, 300, now=CurrentTimes(0))
    host.commit()
    assert host.summary.holds == ((20, 1), (99, 1), (109, 2))
    due = host.run(CurrentTimes(110))
    assert [d.timestamp for d in due if not isinstance(d, FiredTimer)] == [20, 300, 500, 99]
    host.commit()
    assert (host.summary, host.store.copy_cells()) == (EMPTY_SUMMARY, {})


def test_stateful_bundle_reads_only_keys_with_elements() -> None:
    host = Host(StatefulSpec(FIXED, STATES, on_window_expiration=True))
    many = 5_000
    keys = [b"%d" % number for number in range(many)]
    host.shard.accept_elements(keys, [DATA] * many, [1] * many, [b""] * many, CurrentTimes(0))
    for key in keys:
        host.shard.get_state(ValueState, "last", key, DATA).write(b"1")
        host.shard.set_timer(timer(50, key=key))
    host.commit()
    host.shard.accept_elements(keys[:100], [DATA] * 100, [1] * 100, [b""] * 100, CurrentTimes(0))
    for key in keys[:100]:
        host.shard.get_state(ValueState, "last", key, DATA).write(b"2")
    assert len(host.shard.finish_bundle().deltas) == 100
    assert host.store.reads <= 110


def test_undeclared_state_raises_value_error() -> None:
    host = Host(StatefulSpec(FIXED, STATES))
    with pytest.raises(ValueError, match="'seen' is not declared as ValueState"):
        host.shard.get_state(ValueState, "seen", KEY, DATA)
    with pytest.raises(ValueError, match="reserved for the engine"):
        StatefulSpec(FIXED, {"~mine": BagState})


def test_missing_stored_timer_raises_value_error() -> None:
    host = Host(StatefulSpec(FIXED))
    host.admit(0, now=CurrentTimes(0))
    host.shard.set_timer(timer(10))
    host.commit()
    for cell in [cell for cell in host.store.copy_cells() if cell.name == "~timers"]:
        del host.store._cells[cell]
    with pytest.raises(ValueError, match="no record of it"):
        host.run(CurrentTimes(50))
