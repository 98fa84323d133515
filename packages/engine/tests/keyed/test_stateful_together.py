"""Tests of work that a stateful shard returns together: the first due work of each key and window."""

from __future__ import annotations

import attrs
import pytest
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.summary import EMPTY_SUMMARY
from beam_runner_model.window_coders import encode_window
from beam_runner_model.window_fns import FixedWindows
from beam_runner_model.windows import IntervalWindow

from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.keyed.state import BagState, State
from beam_runner_engine.keyed.stateful_records import ExpiredWindow, FiredTimer, StatefulSpec

from .stateful_host import DATA, KEY, Host, timer

FIXED = WindowingStrategy(FixedWindows(100), allowed_lateness=10)
STATES: dict[str, type[State]] = {"seen": BagState}


def test_take_due_work_returns_the_first_work_of_each_key_and_window() -> None:
    other, window = b"other", encode_window(IntervalWindow(100, 200))
    host = Host(StatefulSpec(FIXED, STATES, on_window_expiration=True))
    host.shard.accept_elements(
        [KEY, KEY, other], [DATA, window, DATA], [0, 100, 0], [0, 0, 0], CurrentTimes(0)
    )
    for new in (
        timer(10, "first"),
        timer(20, "second"),
        timer(120, "window", window=window),
        timer(15, "other", key=other),
        timer(30, "clock", processing=True, key=other),
    ):
        host.shard.set_timer(new)
    assert host.shard.take_due_work(CurrentTimes(209), 10, looks_past=True) == [
        FiredTimer(timer(10, "first")),
        FiredTimer(timer(15, "other", key=other)),
        FiredTimer(timer(120, "window", window=window)),
    ]
    host.shard.clear_timer(KEY, DATA, "f", "second")
    assert host.shard.take_due_work(CurrentTimes(209), 10, looks_past=True) == [
        ExpiredWindow(KEY, DATA, 99),
        FiredTimer(timer(30, "clock", processing=True, key=other)),
    ]
    assert host.shard.take_due_work(CurrentTimes(209), 10, looks_past=True) == [
        ExpiredWindow(other, DATA, 99),
    ]
    assert host.shard.take_due_work(CurrentTimes(210), 10, looks_past=True) == [
        ExpiredWindow(KEY, window, 199)
    ]
    assert host.shard.take_due_work(CurrentTimes(210), 10, looks_past=True) == []
    host.commit()
    assert (host.summary, host.store.copy_cells()) == (EMPTY_SUMMARY, {})


def test_take_due_work_skips_a_key_with_many_timers() -> None:
    keys = [f"{number}".encode() for number in range(10)]
    host = Host(StatefulSpec(FIXED))
    for key in keys:
        for time in range(8):
            host.shard.set_timer(timer(10 * int(key) + time, str(time), key=key))
    host.commit()
    together = []
    while due := host.shard.take_due_work(CurrentTimes(200), 1000, looks_past=True):
        together.append([each.timer.key for each in due if isinstance(each, FiredTimer)])
    assert together == [keys] * 8


def test_take_due_work_without_skipping_ends_at_blocked_work() -> None:
    host = Host(StatefulSpec(FIXED))
    for time, tag, key in ((10, "", b"a"), (20, "second", b"a"), (30, "", b"b")):
        host.shard.set_timer(timer(time, tag, key=key))
    found = [
        [
            each.timer.tag
            for each in host.shard.take_due_work(CurrentTimes(50), 10)
            if isinstance(each, FiredTimer)
        ]
        for _ in range(3)
    ]
    assert found == [[""], ["second", ""], []]


def test_take_due_work_returns_at_most_the_limit() -> None:
    host = Host(StatefulSpec(FIXED))
    for key in (b"a", b"b", b"c"):
        host.shard.set_timer(timer(10, key=key))
    found = [len(host.shard.take_due_work(CurrentTimes(50), 2)) for _ in range(3)]
    assert found == [2, 1, 0]


def test_windows_that_expire_together_still_have_their_state() -> None:
    host = Host(StatefulSpec(FIXED, STATES, on_window_expiration=True))
    keys = [b"a", b"b"]
    host.shard.accept_elements(keys, [DATA] * 2, [0, 0], [0, 0], CurrentTimes(0))
    for key in keys:
        host.shard.get_state(BagState, "seen", key, DATA).add(key)
    due = host.shard.take_due_work(CurrentTimes(110), 10, looks_past=True)
    assert due == [ExpiredWindow(key, DATA, 99) for key in keys]
    bags = [host.shard.get_state(BagState, "seen", key, DATA) for key in keys]
    assert [list(bag.read()) for bag in bags] == [[b"a"], [b"b"]]
    for key in keys:
        with pytest.raises(ValueError, match="its window is expiring"):
            host.shard.set_timer(timer(105, key=key))
    host.commit()
    assert host.store.copy_cells() == {}


@pytest.mark.parametrize("timers", [False, True])
def test_sorted_elements_are_returned_together_only_without_timers(timers: bool) -> None:
    spec = StatefulSpec(FIXED, STATES, time_sorted_input=True, timers=timers)
    host = Host(attrs.evolve(spec, on_window_expiration=True))
    host.admit(3, 1, 2, now=CurrentTimes(0))
    found = []
    while due := host.shard.take_due_work(CurrentTimes(110), 10, looks_past=True):
        found.append([getattr(each, "timestamp", None) for each in due])
    assert found == ([[1], [2], [3], [99]] if timers else [[1, 2, 3, 99]])
