"""Tests of bundles of stateful stages: the order of calls, the persisted state, and the remaining timers."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import attrs
import pytest
from beam_runner_data.grouping import key_runs
from beam_runner_data.rows.key_partitioning import SpillFiles, create_key_rules
from beam_runner_data.state.shard_stores import ShardStores
from beam_runner_engine.keyed.merging import SessionMerger
from beam_runner_engine.keyed.state import BagState, ValueState
from beam_runner_engine.keyed.timers import TimeDomain
from beam_runner_model.chunks import StageTimer
from beam_runner_model.strategy import MergeStatus, WindowingStrategy
from beam_runner_model.summary import EMPTY_SUMMARY
from beam_runner_model.times import MIN_TIMESTAMP
from beam_runner_model.window_coders import WindowCoder
from beam_runner_model.window_fns import FixedWindows, OpaqueWindows, Sessions
from beam_runner_planner.plan import StatefulPlan
from beam_runner_worker.errors import BundleError
from user_code import Row, UserCode, batch, run, window

PLAN = StatefulPlan(
    "Stateful",
    states={"bag": BagState, "value": ValueState},
    timers={"event": TimeDomain.EVENT_TIME, "clock": TimeDomain.PROCESSING_TIME},
)
W0, W10 = window(0, 10), window(10, 20)
FIXED = WindowingStrategy(FixedWindows(10), window_coder=WindowCoder.INTERVAL)
SESSIONS = WindowingStrategy(
    Sessions(10), window_coder=WindowCoder.INTERVAL, merge_status=MergeStatus.NEEDS_MERGE
)
CUSTOM = attrs.evolve(SESSIONS, window_fn=OpaqueWindows("sessions of an SDK's own"))


class Collect(UserCode):
    """A DoFn that adds each element to a bag. A timer at 50 emits the bag."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[tuple[bytes, bytes]] = []

    def element(self, row: Row) -> None:
        self.state.append_to_bag(self.cell("bag", row.key, row.window), row.value[1:])
        self.set(row.key, 50, place=row.window)

    def timer(self, timer: StageTimer) -> None:
        bag = self.cell("bag", timer.key, timer.windows[0])
        self.shown.append((timer.key, self.state.read_bag(bag)))


MIXED = [batch(Row(b"b1"), Row(b"a2"), Row(b"b3")), batch(Row(b"c4"), Row(b"a5"), Row(b"b6"))]


def test_bounded_input_is_processed_by_key_in_one_bundle() -> None:
    code = Collect()
    assert run(PLAN, code, MIXED) == (EMPTY_SUMMARY, ())
    assert code.calls[:7] == [b"b1", b"b3", b"b6", b"a2", b"a5", b"c4", ""]
    assert set(code.shown) == {(b"a", b"25"), (b"b", b"136"), (b"c", b"4")}
    assert [call for call in code.calls if call == ""] == ["", ""], "all timers together"


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_stateful_input_is_divided_at_keys_and_large_keys_keep_their_state(
    monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(key_runs, "_PART_ROWS", rows)
    code = Collect()
    run(PLAN, code, MIXED)
    assert code.shown == [(b"b", b"136"), (b"a", b"25"), (b"c", b"4")]
    assert code.calls.index((b"b", "event")) < code.calls.index(b"a2")


def test_stateful_input_is_divided_into_parts_of_limited_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(key_runs, "_PART_BYTES", 1)
    parts = list(key_runs.sort_by_key(MIXED))
    assert [len(part) for part in parts] == [1] * 6
    assert [part.ends_key for part in parts] == [False, False, True, False, True, True]
    assert list(key_runs.sort_by_key([])) == []


@pytest.mark.parametrize("budget", [1, 200, 1000])
def test_stateful_key_shard_larger_than_memory_limit_is_processed(
    tmp_path: Path, budget: int
) -> None:
    rows = [Row(b"%c%d" % (b"abhh"[n % 4], n)) for n in range(120)]
    batches = [batch(*rows[first : first + 7]) for first in range(0, len(rows), 7)]
    rules = create_key_rules(budget, SpillFiles(tmp_path, "1-1-1"), 2)
    code, expected = Collect(), Collect()
    run(PLAN, expected, batches)
    large = partial(key_runs.sort_large_shard_by_key, weight=10_000, rules=rules)
    assert run(PLAN, code, batches, parts=large) == (EMPTY_SUMMARY, ())
    assert sorted(code.shown) == sorted(expected.shown)
    for key in {row.key for row in rows}:
        mine = [row.value for row in rows if row.key == key]
        assert [call for call in code.calls if call in mine] == mine
    assert list(tmp_path.iterdir()) == []


def test_state_and_timers_persist_until_next_bundle(tmp_path: Path) -> None:
    stores = ShardStores(tmp_path)
    code = Collect()
    summary, state = run(PLAN, code, MIXED[:1], stores=stores, end=MIN_TIMESTAMP)
    assert summary.next_event_timer == 51 and code.shown == []
    summary, state = run(PLAN, code, MIXED[1:], stores=stores, state=state, end=50, name="2")
    assert code.shown == []
    summary, state = run(PLAN, code, stores=stores, state=state, end=51, name="3")
    assert sorted(code.shown) == [(b"a", b"25"), (b"b", b"136"), (b"c", b"4")]
    assert summary.next_event_timer is None


class Alarms(UserCode):
    """A DoFn whose first timer clears one of two waiting timers, and sets a timer between them."""

    def element(self, row: Row) -> None:
        for tag, time in (("first", 10), ("cleared", 20), ("last", 30)):
            self.set(row.key, time, tag)

    def timer(self, timer: StageTimer) -> None:
        if timer.tag == "first":
            self.set(timer.key, None, "cleared")
            self.set(timer.key, 25, "between")


def test_user_code_of_a_timer_can_change_later_timers() -> None:
    code = Alarms()
    run(PLAN, code, [batch(Row(b"a"), Row(b"b"))])
    timers = [call for call in code.calls if isinstance(call, tuple)]
    for key in (b"a", b"b"):
        assert [tag for k, tag in timers if k == key] == ["first", "between", "last"]
    assert code.calls.count("") == 4


class Clocks(UserCode):
    def element(self, row: Row) -> None:
        self.set(row.key, 1000, family="clock", hold=row.time)


def test_processing_time_timers_wait_for_clock_if_input_continues(tmp_path: Path) -> None:
    rows = [batch(Row(b"a", 5))]
    code = Clocks()
    run(PLAN, code, rows)
    assert code.calls == [b"a", "", (b"a", "clock"), ""]
    stores, code = ShardStores(tmp_path), Clocks()
    summary, state = run(PLAN, code, rows, stores=stores, end=MIN_TIMESTAMP, clock=999)
    assert (summary.next_processing_timer, summary.min_hold) == (1000, 5)
    run(PLAN, code, stores=stores, state=state, end=MIN_TIMESTAMP, clock=1000, name="2")
    assert code.calls == [b"a", "", (b"a", "clock"), ""]


def test_windows_expire_one_by_one_with_their_state(tmp_path: Path) -> None:
    class Last(Collect):
        def element(self, row: Row) -> None:
            self.state.append_to_bag(self.cell("bag", row.key, row.window), row.value[1:])

    plan = StatefulPlan("Stateful", PLAN.states, PLAN.timers, expiration_family="event")
    rows = [batch(Row(b"a1", 1, W0), Row(b"b2", 2, W0), Row(b"a3", 11, W10))]
    code, stores = Last(), ShardStores(tmp_path)
    summary, state = run(plan, code, rows, strategy=FIXED, stores=stores, end=MIN_TIMESTAMP)
    assert summary.next_expiry == 9
    run(plan, code, strategy=FIXED, stores=stores, state=state, end=10, name="2")
    assert code.shown == [(b"a", b"1"), (b"b", b"2")]
    code = Last()
    run(plan, code, rows, strategy=FIXED)
    assert sorted(code.shown) == [(b"a", b"1"), (b"a", b"3"), (b"b", b"2")]


def test_time_sorted_elements_arrive_by_timestamp_with_timers_between() -> None:
    plan = StatefulPlan("Stateful", PLAN.states, PLAN.timers, time_sorted=True)
    code = Collect()
    run(plan, code, [batch(*(Row(b"a%d" % time, time) for time in (60, 3, 40, 3, 50)))])
    assert [call for call in code.calls if call] == [
        *(b"a3", b"a3", b"a40", b"a50", (b"a", "event"), b"a60", (b"a", "event"))
    ]


def test_stateful_bundle_drops_late_elements(tmp_path: Path) -> None:
    code = UserCode()
    rows = [batch(Row(b"a1", 1, W0), Row(b"a2", 12, W10))]
    more = {"strategy": FIXED, "stores": ShardStores(tmp_path), "begin": 10, "end": 10}
    run(PLAN, code, rows, **more)
    run(PLAN, code, [batch(Row(b"a3", 3, W0))], **more, name="2")
    assert code.calls == [b"a2", ""]


LATE, TIMELY = (W0, 1), (W10, 12)


@pytest.mark.parametrize("kept", [True, False], ids=["state-kept", "bounded"])
@pytest.mark.parametrize("time_sorted", [False, True], ids=["as-it-comes", "time-sorted"])
@pytest.mark.parametrize(
    "places",
    [[LATE] * 5, [LATE] * 3 + [TIMELY] * 2, [TIMELY] * 5],
    ids=["all-late", "some-late", "none-late"],
)
def test_stateful_bundle_counts_each_late_element_once(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    places: list[tuple[bytes, int]],
    time_sorted: bool,
    kept: bool,
) -> None:
    """A batch has several elements of a key, in one part and in several parts."""
    for part_rows in (1, 2, 100):
        monkeypatch.setattr(key_runs, "_PART_ROWS", part_rows)
        code = UserCode()
        rows = [Row(b"%c%d" % (b"aab"[n % 3], n), time, w) for n, (w, time) in enumerate(places)]
        run(
            attrs.evolve(PLAN, time_sorted=time_sorted),
            code,
            [batch(*rows)],
            strategy=FIXED,
            stores=ShardStores(tmp_path / str(part_rows)) if kept else None,
            begin=10,
        )
        processed = [call for call in code.calls if call != ""]
        assert len(processed) == places.count(TIMELY)
        assert code.dropped == places.count(LATE)


@pytest.mark.parametrize("strategy", [SESSIONS, CUSTOM], ids=["sessions", "custom"])
def test_stateful_elements_get_their_merged_windows(strategy: WindowingStrategy) -> None:
    class Sums(Collect):
        def element(self, row: Row) -> None:
            super().element(row)
            self.set(row.key, 5, place=row.window)
            self.calls.append(row.window)

    code = Sums()
    rows = [Row(b"a%d" % t, t, window(t, t + 10)) for t in (300, 3, 8)]
    run(PLAN, code, [batch(*rows)], strategy=strategy, merger=SessionMerger())
    assert code.calls[1:6:2] == [window(300, 310), window(3, 18), window(3, 18)]
    assert sorted(code.shown) == [(b"a", b"300"), (b"a", b"38")]


def test_merged_windows_with_unmergeable_state_fail_with_name_of_transform(tmp_path: Path) -> None:
    class Write(UserCode):
        def element(self, row: Row) -> None:
            self.state.append_to_bag(self.cell("value", row.key, row.window), row.value)

    stores = ShardStores(tmp_path)
    rows = [batch(Row(b"a1", t, window(t, t + 10))) for t in (0, 15)]
    more = {"strategy": SESSIONS, "stores": stores, "end": MIN_TIMESTAMP}
    code = Write()
    _, state = run(PLAN, code, rows, **more)
    with pytest.raises(BundleError, match="'value'.* can't be merged.*'Stateful'"):
        run(PLAN, code, [batch(Row(b"a2", 8, window(8, 18)))], **more, state=state, name="2")
