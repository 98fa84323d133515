"""Timers that are told ahead: in far fewer rounds, in the same order, and begun again where user code changed one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from beam_runner_engine.keyed.state import BagState
from beam_runner_engine.keyed.timers import TimeDomain
from beam_runner_engine.values.strategy import MergeStatus, WindowingStrategy
from beam_runner_engine.values.window_coders import WindowCoder
from beam_runner_engine.values.window_fns import FixedWindows, Sessions
from beam_runner_worker.records import Timer
from hypothesis import given
from hypothesis import strategies as st
from user_code import GLOBAL, Row, UserCode, batch, run, window

from beam_spark_executor.bundles.timers_ahead import TimersTouched, Trust
from beam_spark_executor.plan import StatefulPlan

PLAN = StatefulPlan(
    "Stateful",
    states={"bag": BagState},
    timers={"event": TimeDomain.EVENT_TIME, "clock": TimeDomain.PROCESSING_TIME},
)
FIXED = WindowingStrategy(FixedWindows(10), window_coder=WindowCoder.INTERVAL)
SESSIONS = WindowingStrategy(
    Sessions(10), window_coder=WindowCoder.INTERVAL, merge_status=MergeStatus.NEEDS_MERGE
)
Change = tuple[int, int | None, str]
"""What the timer of some number does: sets the one of another number to a time, or clears it; its family."""


class Changing(UserCode):
    """Sets timers by their tags; some of which change others, once."""

    def __init__(
        self, timers: dict[str, int], changes: dict[str, list[Change]], family: str
    ) -> None:
        super().__init__()
        self._timers, self._changes, self._family = timers, dict(changes), family

    def element(self, row: Row) -> None:
        for tag, time in self._timers.items():
            self.set(row.key, time, tag, family=self._family, place=row.window)

    def timer(self, timer: Timer) -> None:
        self.state.append(self.cell("bag", timer.key, timer.windows[0]), timer.tag.encode())
        for tag, time, family in self._changes.pop(timer.tag, ()):
            self.set(timer.key, time, str(tag), family=family, place=timer.windows[0])


def rounds(code: UserCode) -> int:
    return code.calls.count("")


def fired(code: UserCode) -> list[Any]:
    return [call for call in code.calls if isinstance(call, tuple)]


def play(make: Callable[[], UserCode], trust: Trust | None, **options: Any) -> UserCode:
    """As a bundle does: once, and again if timers that were told ahead were touched."""
    code = make()
    try:
        run(PLAN, code, trust=trust, **options)
    except TimersTouched:
        assert trust is not None and not trust.kept
        code = make()
        run(PLAN, code, trust=trust, **options)
    return code


@pytest.mark.parametrize("family", ["event", "clock"])
def test_a_thousand_timers_of_a_key_take_as_many_rounds_as_their_number_has_digits(
    family: str,
) -> None:
    timers = {f"{number:04}": number for number in range(1000)}
    rows = [batch(Row(b"a"), Row(b"b"))]
    ahead, one_by_one = (
        play(lambda: Changing(timers, {}, family), trust, batches=rows) for trust in (Trust(), None)
    )
    assert fired(ahead) == fired(one_by_one) != []
    assert rounds(one_by_one) > 1000
    assert rounds(ahead) < 24


def test_timers_that_set_themselves_anew_later_are_not_told_ahead_and_nothing_begins_again() -> (
    None
):
    trust = Trust()
    timers = {str(number): number for number in range(20)}
    changes: dict[str, list[Change]] = {str(n): [(n, n + 100, "event")] for n in range(20)}
    code = play(lambda: Changing(timers, changes, "event"), trust, batches=[batch(Row(b"a"))])
    assert [int(tag) for _, tag in fired(code)] == [*range(20), *range(20)]
    assert trust.kept


def test_a_bundle_begins_again_where_a_timer_clears_one_that_was_told() -> None:
    trust = Trust()
    timers = {str(number): number for number in range(100)}
    changes: dict[str, list[Change]] = {"40": [(41, None, "event")]}
    make = lambda: Changing(timers, changes, "event")  # noqa: E731
    with pytest.raises(TimersTouched):
        run(PLAN, make(), [batch(Row(b"a"))], trust=trust)
    again = play(make, trust, batches=[batch(Row(b"a"))])
    assert [int(tag) for _, tag in fired(again)] == [n for n in range(100) if n != 41]
    assert rounds(again) > 99, "it is not tried again"


_TAGS = st.integers(0, 12)
_TIMES = st.integers(0, 40)
_CHANGES = st.dictionaries(
    _TAGS.map(str),
    st.lists(st.tuples(_TAGS, st.none() | _TIMES, st.sampled_from(["event", "clock"])), max_size=2),
    max_size=3,
)


@given(
    st.dictionaries(_TAGS.map(str), _TIMES, min_size=4),
    _CHANGES,
    st.sampled_from(["event", "clock"]),
    st.sampled_from(["global", "fixed", "sessions"]),
)
def test_what_fires_and_in_which_order_for_a_key_is_as_one_by_one(
    timers: dict[str, int], changes: dict[str, list[Change]], family: str, windows: str
) -> None:
    places = [GLOBAL] if windows == "global" else [window(0, 10), window(10, 20)]
    options: dict[str, Any] = (
        {} if windows == "global" else {"strategy": FIXED if windows == "fixed" else SESSIONS}
    )
    options["batches"] = [batch(*(Row(key, 0, place) for key in (b"a", b"b") for place in places))]
    ahead, one_by_one = (
        play(lambda: Changing(timers, changes, family), trust, **options)
        for trust in (Trust(), None)
    )
    for key in (b"a", b"b"):
        found, expected = ([f for f in fired(c) if f[0] == key] for c in (ahead, one_by_one))
        assert found == expected
