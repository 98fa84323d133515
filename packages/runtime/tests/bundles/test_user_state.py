"""Tests of state requests of a harness: each kind uses its protocol, and timers use the right clock."""

from __future__ import annotations

import time

import pytest
from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.keyed.state import (
    BagState,
    CombiningState,
    MultimapState,
    OrderedListState,
    ValueState,
)
from beam_runner_engine.keyed.stateful import StatefulShard
from beam_runner_engine.keyed.stateful_records import ExpiredWindow, FiredTimer, StatefulSpec
from beam_runner_engine.keyed.timers import TimeDomain
from beam_runner_engine.testing.stores import MemoryCellStore
from beam_runner_model.chunks import StageTimer, StateCell
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP
from beam_runner_planner.plan import StatefulPlan
from beam_runner_worker.errors import HarnessError, TimerRefused

from beam_runner_runtime.bundles.user_state import ShardUserState
from beam_runner_runtime.clock import ProcessingClock

STATES = {
    "bag": BagState,
    "value": ValueState,
    "sum": CombiningState,
    "map": MultimapState,
    "list": OrderedListState,
}


def cell(name: str) -> StateCell:
    return StateCell("t", name, b"", b"key")


def state_of(
    *,
    scripted_clock: bool = False,
    processing_time: int = 0,
    on_window_expiration: bool = False,
) -> ShardUserState:
    timers = {"event": TimeDomain.EVENT_TIME, "clock": TimeDomain.PROCESSING_TIME}
    plan = StatefulPlan("t", STATES, timers, scripted_clock=scripted_clock)
    state = ShardUserState(plan, processing_time, ProcessingClock())
    spec = StatefulSpec(WindowingStrategy(), STATES, on_window_expiration=on_window_expiration)
    state.shard = StatefulShard(spec, MemoryCellStore())
    return state


def timer(family: str, fire_at: int | None, hold: int | None = None) -> StageTimer:
    return StageTimer("t", family, "tag", b"key", (b"",), fire_at, hold, b"\x0f")


@pytest.mark.parametrize("name", ["bag", "sum"])
def test_bag_state_is_appended(name: str) -> None:
    state = state_of()
    assert state.read_bag(cell(name)) == b""
    state.append_to_bag(cell(name), b"12")
    state.append_to_bag(cell(name), b"3")
    assert state.read_bag(cell(name)) == b"123"
    state.replace_bag(cell(name), b"4")
    assert state.read_bag(cell(name)) == b"4"
    state.clear_cell(cell(name))
    assert state.read_bag(cell(name)) == b""


def test_value_state_in_parts_is_cleared_before_next_value() -> None:
    state = state_of()
    assert state.read_bag(cell("value")) == b""
    state.append_to_bag(cell("value"), b"1")
    state.append_to_bag(cell("value"), b"2")
    assert state.read_bag(cell("value")) == b"12"
    state.clear_cell(cell("value"))
    state.append_to_bag(cell("value"), b"3")
    assert state.read_bag(cell("value")) == b"3"
    state.replace_bag(cell("value"), b"45")
    assert state.read_bag(cell("value")) == b"45"
    state.replace_bag(cell("value"), b"")
    assert state.read_bag(cell("value")) == b""


def test_multimap_state_is_read_and_written() -> None:
    state = state_of()
    state.append_map_values(cell("map"), b"k2", b"1")
    state.append_map_values(cell("map"), b"k1", b"2")
    state.append_map_values(cell("map"), b"k2", b"3")
    assert state.read_map_keys(cell("map")) == b"k1k2"
    assert state.read_map_values(cell("map"), b"k2") == b"13"
    state.remove_map_key(cell("map"), b"k2")
    assert (
        state.read_map_keys(cell("map")) == b"k1"
        and state.read_map_values(cell("map"), b"k2") == b""
    )
    state.clear_cell(cell("map"))
    assert state.read_map_keys(cell("map")) == b""


def test_ordered_list_state_is_read_and_written() -> None:
    state = state_of()
    for sort_key, value in ((5, b"a"), (-3, b"b"), (5, b"c"), (9, b"d")):
        state.insert_ordered_value(cell("list"), sort_key, value)
    lowest, highest = -(1 << 63), (1 << 63) - 1
    everything = [(-3, b"b"), (5, b"a"), (5, b"c"), (9, b"d")]
    assert list(state.read_ordered_values(cell("list"), lowest, highest)) == everything
    assert list(state.read_ordered_values(cell("list"), -3, 9)) == everything[:3]
    state.remove_ordered_values(cell("list"), 0, 9)
    assert list(state.read_ordered_values(cell("list"), lowest, highest)) == [(-3, b"b"), (9, b"d")]


def test_undeclared_state_is_refused_with_its_name() -> None:
    state = state_of()
    with pytest.raises(HarnessError, match="'bag' as MultimapState, but declares it as BagState"):
        state.read_map_keys(cell("bag"))
    with pytest.raises(HarnessError, match="'map' as BagState"):
        state.read_bag(cell("map"))
    with pytest.raises(HarnessError, match="'odd'"):
        state.clear_cell(cell("odd"))
    with pytest.raises(HarnessError, match="the undeclared family 'odd'"):
        state.set_timer(timer("odd", 1))


def due(state: ShardUserState, watermark: int, clock: int) -> tuple[int, int | None] | None:
    found = state.shard.take_next_due_work(CurrentTimes(watermark, clock))
    if found is None:
        return None
    assert isinstance(found, FiredTimer)
    return found.timer.fire_time, found.timer.hold


def test_user_timers_can_be_set_and_cleared_and_fire_before_window_end() -> None:
    state = state_of()
    state.set_timer(timer("event", 10, hold=5))
    state.set_timer(timer("event", None))
    assert due(state, 20, 0) is None
    state.set_timer(timer("event", -(1 << 63), hold=-(1 << 63)))
    assert due(state, 20, 0) == (MIN_TIMESTAMP, MIN_TIMESTAMP)


def test_processing_time_of_sdk_equals_processing_time_of_job() -> None:
    state = state_of(processing_time=7)
    now = int(time.time() * 1000)
    state.set_timer(timer("clock", now))
    assert due(state, 0, now - 1) is None
    assert due(state, 0, now) == (now, None)


def test_timer_set_during_window_expiry_is_refused_as_user_error() -> None:
    state = state_of(on_window_expiration=True)
    state.shard.accept_elements([b"key"], [b""], [0], [b""], CurrentTimes(0))
    assert isinstance(state.shard.take_next_due_work(CurrentTimes(MAX_TIMESTAMP)), ExpiredWindow)
    state.set_timer(timer("event", None))
    with pytest.raises(TimerRefused, match="'event' of t is set while its window expires"):
        state.set_timer(timer("event", 10))


@pytest.mark.parametrize("domain", ["event", "clock"])
def test_test_stream_clock_is_converted_to_sdk_time(domain: str) -> None:
    state = state_of(scripted_clock=True, processing_time=500)
    later = int(time.time() * 1000) + 60_000
    state.set_timer(timer(domain, later))
    found = due(state, MAX_TIMESTAMP - 1 if domain == "event" else 0, MAX_TIMESTAMP)
    assert found is not None
    if domain == "event":
        assert found[0] == later
    else:
        assert 500 + 50_000 < found[0] <= 500 + 60_000


def test_timers_of_a_job_with_test_stream_clock_use_its_time() -> None:
    state = state_of(scripted_clock=True, processing_time=500)
    state.set_timer(timer("clock", 1000))
    assert due(state, 0, 999) is None
    assert due(state, 0, 1000) == (1000, None)


@pytest.mark.parametrize("step", [-3_600_000, 3_600_000])
def test_timers_use_sdk_clock_even_if_sdk_clock_is_wrong(
    monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The clock of the SDK has been wrong since the server started, or is corrected meanwhile."""
    state = state_of()
    right = time.time_ns
    begun = time.time_ns() // 1_000_000
    monkeypatch.setattr(time, "time_ns", lambda: right() + step * 1_000_000)
    state.set_timer(timer("clock", time.time_ns() // 1_000_000 + 60_000))
    found = due(state, 0, MAX_TIMESTAMP)
    assert found is not None
    # Both clocks are truncated to milliseconds.
    assert 59_999 <= found[0] - begun < 65_000
