"""A host of stateful shards for tests: user code is a function that is called with what is due."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.window_coders import encode_window
from beam_runner_model.windows import IntervalWindow

from beam_runner_engine.keyed.now import Now
from beam_runner_engine.keyed.stateful import Due, StatefulShard, StatefulSpec, TimerFired
from beam_runner_engine.keyed.timers import TimeDomain, Timer
from beam_runner_engine.testing.stores import MemoryStore

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
    """Runs bundles of a stateful stage whose user code is a function called with what is due."""

    def __init__(self, spec: StatefulSpec, merger: Any = None) -> None:
        self.spec = spec
        self.merger = merger
        self.store = MemoryStore()
        self.summary: Any = None
        self.dropped = 0
        self.shard = StatefulShard(spec, self.store, merger)

    def admit(self, *timestamps: int, now: Now, window: bytes = DATA) -> list[int]:
        """Admits elements of the key whose values are their timestamps; returns the admitted."""
        many = len(timestamps)
        admitted = self.shard.admit([KEY] * many, [window] * many, timestamps, timestamps, now)
        return [timestamps[row] for row in admitted.rows]

    def run(self, now: Now, user: Callable[[Due], None] = lambda due: None) -> list[Due]:
        """Runs all that is due."""
        out = []
        while (due := self.shard.next_due(now)) is not None:
            out.append(due)
            user(due)
        return out

    def commit(self) -> None:
        """Commits the bundle and opens the next one."""
        commit = self.shard.commit()
        self.store.commit(commit.deltas)
        self.summary, self.dropped = commit.summary, self.dropped + commit.dropped
        self.store.reads = 0
        self.shard = StatefulShard(self.spec, self.store, self.merger)


def started(strategy: WindowingStrategy, window: bytes, *timers: Timer, **spec: Any) -> Host:
    """Returns a host with an element at 0 that has set these timers."""
    host = Host(StatefulSpec(strategy, **spec))
    host.admit(0, now=Now(0), window=window)
    for each in timers:
        host.shard.set_timer(attrs.evolve(each, window=window))
    return host


def rung(
    host: Host,
    now: Now,
    user: Callable[[Timer], None] = lambda rung: None,
    *,
    commits: bool = False,
) -> list[tuple[str, int]]:
    """Runs all that is due; returns the families and times of the timers that rang.

    With `commits` each timer has a bundle of its own.
    """
    found: list[tuple[str, int]] = []
    while (due := host.shard.next_due(now)) is not None:
        assert isinstance(due, TimerFired)
        found.append((due.timer.family, due.timer.fire_time))
        user(due.timer)
        if commits:
            host.commit()
        assert len(found) < 20, "the timers ring for ever"
    host.commit()
    return found
