"""Caller of stateful shards for tests. Its user code is a function that gets the due work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.window_coders import encode_window
from beam_runner_model.windows import IntervalWindow

from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.keyed.stateful import StatefulShard
from beam_runner_engine.keyed.stateful_records import DueWork, FiredTimer, StatefulSpec
from beam_runner_engine.keyed.timers import TimeDomain, Timer
from beam_runner_engine.testing.stores import MemoryCellStore

KEY = b"key"
DATA = encode_window(IntervalWindow(0, 100))


def timer(
    fire_time: int,
    tag: str = "",
    *,
    hold: int | None = None,
    processing: bool = False,
    key: bytes = KEY,
    window: bytes = DATA,
    family: str = "f",
) -> Timer:
    """Returns a timer."""
    domain = TimeDomain.PROCESSING_TIME if processing else TimeDomain.EVENT_TIME
    return Timer(key, window, family, tag, domain, fire_time, hold)


class Host:
    """Caller of the engine that runs bundles of a stateful stage. The user code is a function that
    gets the due work.
    """

    def __init__(self, spec: StatefulSpec, merger: Any = None) -> None:
        self.spec = spec
        self.merger = merger
        self.store = MemoryCellStore()
        self.summary: Any = None
        self.dropped = 0
        self.shard = StatefulShard(spec, self.store, merger)

    def admit(self, *timestamps: int, now: CurrentTimes, window: bytes = DATA) -> list[int]:
        """Passes elements of one key to the shard, with values equal to their timestamps, and
        returns the values that aren't late.
        """
        many = len(timestamps)
        admitted = self.shard.accept_elements(
            [KEY] * many, [window] * many, timestamps, timestamps, now
        )
        return [timestamps[row] for row in admitted.rows]

    def run(
        self, now: CurrentTimes, user: Callable[[DueWork], None] = lambda due: None
    ) -> list[DueWork]:
        """Runs all due work."""
        out = []
        while (due := self.shard.take_next_due_work(now)) is not None:
            out.append(due)
            user(due)
        return out

    def commit(self) -> None:
        """Commits the bundle and opens the next bundle."""
        commit = self.shard.finish_bundle()
        self.store.commit_deltas(commit.deltas)
        self.summary, self.dropped = commit.summary, self.dropped + commit.dropped
        self.store.reads = 0
        self.shard = StatefulShard(self.spec, self.store, self.merger)


def started(strategy: WindowingStrategy, window: bytes, *timers: Timer, **spec: Any) -> Host:
    """Returns a caller with an element at time 0 and these timers."""
    host = Host(StatefulSpec(strategy, **spec))
    host.admit(0, now=CurrentTimes(0), window=window)
    for each in timers:
        host.shard.set_timer(attrs.evolve(each, window=window))
    return host


def rung(
    host: Host,
    now: CurrentTimes,
    user: Callable[[Timer], None] = lambda rung: None,
    *,
    commits: bool = False,
) -> list[tuple[str, int]]:
    """Runs all due work, and returns the families and times of the fired timers. If `commits` is
    True, each timer fires in a separate bundle.
    """
    found: list[tuple[str, int]] = []
    while (due := host.shard.take_next_due_work(now)) is not None:
        assert isinstance(due, FiredTimer)
        found.append((due.timer.family, due.timer.fire_time))
        user(due.timer)
        if commits:
            host.commit()
        assert len(found) < 20, "the timers ring for ever"
    host.commit()
    return found
