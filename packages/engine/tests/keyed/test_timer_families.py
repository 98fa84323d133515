"""Tests of timers whose family user code no longer declares."""

from __future__ import annotations

import attrs
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.summary import EMPTY_SUMMARY
from beam_runner_model.window_coders import encode_window
from beam_runner_model.window_fns import FixedWindows, GlobalWindows
from beam_runner_model.windows import GLOBAL_WINDOW

from beam_runner_engine.keyed.cells import CellId
from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.keyed.stateful import StatefulShard
from beam_runner_engine.keyed.stateful_records import FiredTimer, StatefulSpec

from .stateful_host import DATA, Host, started, timer

BOTH = frozenset({"old", "new"})
NEW = frozenset({"new"})
GLOBAL = encode_window(GLOBAL_WINDOW)


def host_with_timers(window: bytes = GLOBAL, *families: str) -> Host:
    """Returns a caller with a committed timer of each family, at time 50 and with a watermark hold
    at 5.
    """
    strategy = WindowingStrategy(GlobalWindows() if window == GLOBAL else FixedWindows(100))
    timers = [timer(50, hold=5, family=family) for family in families]
    host = started(strategy, window, *timers, timer_families=BOTH)
    host.commit()
    return host


def declare(host: Host, families: frozenset[str]) -> None:
    """Opens the next bundle with another declaration of timer families."""
    host.spec = attrs.evolve(host.spec, timer_families=families)
    host.shard = StatefulShard(host.spec, host.store)


def fired(host: Host, watermark: int) -> list[str]:
    found = host.run(CurrentTimes(watermark, processing_time=watermark))
    return [due.timer.family for due in found if isinstance(due, FiredTimer)]


def test_first_bundle_after_update_removes_timers_of_undeclared_families() -> None:
    host = host_with_timers(GLOBAL, "old", "new")
    assert host.summary.holds == ((5, 2),)
    declare(host, NEW)
    host.commit()
    assert host.summary.holds == ((5, 1),)
    assert host.summary.next_event_timer == 51
    assert fired(host, 1_000) == ["new"]


def test_shard_without_declared_timers_becomes_empty() -> None:
    host = host_with_timers(GLOBAL, "old")
    declare(host, frozenset())
    assert fired(host, 1_000) == []
    host.commit()
    assert host.summary == EMPTY_SUMMARY


def test_expired_window_fires_no_undeclared_timer() -> None:
    host = host_with_timers(DATA, "old", "new")
    host.shard.set_timer(timer(60, processing=True, family="old"))
    host.commit()
    declare(host, NEW)
    assert fired(host, 10_000) == ["new"]


def test_timer_family_that_is_declared_again_has_no_earlier_timers() -> None:
    host = host_with_timers(GLOBAL, "old", "new")
    declare(host, NEW)
    host.commit()
    declare(host, BOTH)
    host.shard.set_timer(timer(70, window=GLOBAL, family="old"))
    host.commit()
    assert fired(host, 1_000) == ["new", "old"]


def test_timer_family_declared_again_and_removed_again_loses_its_timers_again() -> None:
    host = host_with_timers(GLOBAL, "old", "new")
    for families in (NEW, BOTH):
        declare(host, families)
        host.shard.set_timer(timer(70, window=GLOBAL, family=max(families)))
        host.commit()
    declare(host, NEW)
    assert fired(host, 1_000) == ["new"]


def test_unchanged_timer_families_need_one_state_read_and_no_write() -> None:
    host = host_with_timers(GLOBAL, "new")
    host.store.reads = 0
    declare(host, BOTH)
    assert host.store.reads == 1
    assert CellId("~families", b"", b"") not in host.shard.finish_bundle().deltas


def test_shard_without_timers_stores_no_timer_families() -> None:
    host = Host(StatefulSpec(WindowingStrategy(GlobalWindows()), timer_families=BOTH))
    host.admit(0, now=CurrentTimes(0), window=GLOBAL)
    assert host.shard.finish_bundle().deltas == {}
