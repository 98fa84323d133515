"""Tests of the cost of grouping with triggers, compared with a Python loop that groups in a
dict.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from beam_runner_model import triggers as t
from beam_runner_model.strategy import MergeStatus, WindowingStrategy
from beam_runner_model.times import MAX_TIMESTAMP
from beam_runner_model.triggers import Trigger
from beam_runner_model.window_coders import encode_window
from beam_runner_model.window_fns import FixedWindows, Sessions
from beam_runner_model.windows import IntervalWindow

from beam_runner_engine.keyed.grouping import TriggeredGrouper
from beam_runner_engine.keyed.now import CurrentTimes
from beam_runner_engine.testing.stores import MemoryCellStore

from .costs import cost_ratio, read

FIXED = WindowingStrategy(FixedWindows(10))
WINDOW = IntervalWindow(0, 10)

TRIGGERS: dict[str, Trigger] = {
    "default": t.DefaultTrigger(),
    "count": t.Repeatedly(t.AfterCount(10)),
    "end of window": t.AfterEndOfWindow(early=t.AfterCount(10), late=t.AfterCount(1)),
    "processing time": t.Repeatedly(t.AfterProcessingTime((t.Delay(5),))),
    "any": t.Repeatedly(t.AfterAny((t.AfterCount(10), t.AfterProcessingTime((t.Delay(5),))))),
    "each": t.Repeatedly(t.AfterEach((t.AfterCount(8), t.AfterCount(12)))),
    "finally": t.OrFinally(t.Repeatedly(t.AfterCount(10)), t.AfterCount(50)),
    "never": t.Never(),
    "always": t.Always(),
}


def plain_loop(keys: list[bytes], windows: list[bytes], values: list[bytes]) -> Any:
    """Groups by key and window with plain dictionaries."""
    groups: dict[tuple[bytes, bytes], list[bytes]] = {}
    for key, window, value in zip(keys, windows, values, strict=True):
        groups.setdefault((key, window), []).append(value)
    return list(groups.items())


@pytest.mark.parametrize("name", TRIGGERS)
def test_grouping_with_triggers_takes_at_most_ten_times_as_long_as_a_dict(name: str) -> None:
    """Uses a hundred elements per key and window in one call."""
    count = 20_000
    keys = [b"key%d" % (i * 7919 % 200) for i in range(count)]
    windows = [encode_window(WINDOW)] * count
    times = [i % 10 for i in range(count)]
    values = [b"v%d" % i for i in range(count)]

    def ours() -> Any:
        grouper = TriggeredGrouper(attrs.evolve(FIXED, trigger=TRIGGERS[name]), MemoryCellStore())
        out = grouper.process_elements(keys, windows, times, values, CurrentTimes(0, 0, 0))
        out += grouper.advance_time(CurrentTimes(MAX_TIMESTAMP, 100))
        return grouper.finish_bundle(), read(out)

    assert cost_ratio(ours, lambda: plain_loop(keys, windows, values)) <= 10


def sessions_cost(per_key: int, trigger: Trigger) -> float:
    """Returns the cost of sessions that grow with every element, as a multiple of the cost of
    grouping by key in a dict.
    """
    count = 20_000
    keys = [b"key%d" % (i % (count // per_key)) for i in range(count)]
    times = [i // (count // per_key) * 5 for i in range(count)]
    windows = [encode_window(IntervalWindow(time, time + 10)) for time in times]
    values = [b"v%d" % i for i in range(count)]
    strategy = WindowingStrategy(
        Sessions(10), merge_status=MergeStatus.NEEDS_MERGE, trigger=trigger
    )

    def ours() -> Any:
        grouper = TriggeredGrouper(strategy, MemoryCellStore())
        out = grouper.process_elements(keys, windows, times, values, CurrentTimes(0, 0, 0))
        out += grouper.advance_time(CurrentTimes(MAX_TIMESTAMP, 100))
        return grouper.finish_bundle(), read(out)

    one = [encode_window(WINDOW)] * count
    return cost_ratio(ours, lambda: plain_loop(keys, one, values), rounds=5)


@pytest.mark.parametrize(
    ("trigger", "most"),
    [
        (t.DefaultTrigger(), 12),
        (t.Repeatedly(t.AfterCount(10)), 12),
        (t.AfterEndOfWindow(early=t.AfterCount(10)), 12),
    ],
    ids=["default", "count", "end of window"],
)
def test_session_grouping_cost_is_bounded(trigger: Trigger, most: float) -> None:
    """Uses elements that each extend their session."""
    assert sessions_cost(100, trigger) <= most


def test_session_grouping_cost_does_not_grow_with_session_size() -> None:
    short, long = (sessions_cost(size, t.Repeatedly(t.AfterCount(10**6))) for size in (40, 2_000))
    assert long <= 3 * short
