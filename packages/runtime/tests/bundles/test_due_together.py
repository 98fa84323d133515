"""Tests of timers due for many keys and windows: they fire together, but in sequence for each key and window."""

from __future__ import annotations

from typing import Any

import pytest
from beam_runner_engine.keyed.state import BagState
from beam_runner_engine.keyed.timers import TimeDomain
from beam_runner_model.chunks import StageTimer
from beam_runner_model.strategy import MergeStatus, WindowingStrategy
from beam_runner_model.window_coders import WindowCoder
from beam_runner_model.window_fns import FixedWindows, Sessions
from beam_runner_planner.plan import StatefulPlan
from hypothesis import given
from hypothesis import strategies as st
from user_code import GLOBAL, Row, UserCode, batch, run, window

from beam_runner_runtime.bundles import stateful

PLAN = StatefulPlan(
    "Stateful",
    states={"bag": BagState},
    timers={"event": TimeDomain.EVENT_TIME, "clock": TimeDomain.PROCESSING_TIME},
)
EXPIRING = StatefulPlan("Stateful", states={"bag": BagState}, timers={}, expiration_family="expire")
FIXED = WindowingStrategy(FixedWindows(10), window_coder=WindowCoder.INTERVAL)
SESSIONS = WindowingStrategy(
    Sessions(10), window_coder=WindowCoder.INTERVAL, merge_status=MergeStatus.NEEDS_MERGE
)
Change = tuple[int, int | None, str]
"""Effect of a timer: the number of the changed timer, its new timestamp or None to clear it, and its family."""


class Changing(UserCode):
    """A DoFn that sets timers by their tags. Some timers change other timers, once for each key and
    window.

    As over the Fn API, the runner learns about changes after the SDK has processed all of its
    input.

    Attributes:
        fired: tags of the fired timers in order, by key and window.
    """

    def __init__(
        self, timers: dict[str, int], changes: dict[str, list[Change]], family: str
    ) -> None:
        super().__init__()
        self._timers, self._changes, self._family = timers, changes, family
        self._changed: set[tuple[bytes, bytes, str]] = set()
        self._set: list[dict[str, Any]] = []
        self.fired: dict[tuple[bytes, bytes], list[str]] = {}

    def element(self, row: Row) -> None:
        for tag, time in self._timers.items():
            self._later(row.key, time, tag, self._family, row.window)

    def timer(self, timer: StageTimer) -> None:
        (place,) = timer.windows
        self.fired.setdefault((timer.key, place), []).append(timer.tag)
        name = (timer.key, place, timer.tag)
        if name not in self._changed:
            self._changed.add(name)
            for tag, time, family in self._changes.get(timer.tag, ()):
                self._later(timer.key, time, str(tag), family, place)

    def _later(self, key: bytes, time: int | None, tag: str, family: str, place: bytes) -> None:
        self._set.append(
            {"key": key, "fire_at": time, "tag": tag, "family": family, "place": place}
        )

    def settle(self) -> None:
        for one in self._set:
            self.set(**one)
        self._set.clear()


def rounds(code: UserCode) -> int:
    return code.calls.count("")


@pytest.mark.parametrize("family", ["event", "clock"])
def test_timers_of_one_key_and_window_fire_one_by_one(family: str) -> None:
    timers = {f"{number:02}": number for number in range(50)}
    code = Changing(timers, {}, family)
    run(PLAN, code, [batch(Row(b"a"), Row(b"b"))])
    assert list(code.fired.values()) == [[*timers], [*timers]]
    assert rounds(code) == 1 + 50


@pytest.mark.parametrize("family", ["event", "clock"])
def test_timers_of_many_windows_of_key_fire_together(family: str) -> None:
    code = Changing({"tag": 5}, {}, family)
    windows = [window(start, start + 10) for start in range(0, 1000, 10)]
    run(PLAN, code, [batch(*(Row(b"a", 0, place) for place in windows))], strategy=FIXED)
    assert len(code.fired) == 100
    assert rounds(code) == 2


def test_windows_of_many_keys_expire_together() -> None:
    code = UserCode()
    run(EXPIRING, code, [batch(*(Row(bytes([key])) for key in range(100)))])
    assert [call for call in code.calls if isinstance(call, tuple)] == [
        (bytes([key]), "expire") for key in range(100)
    ]
    assert rounds(code) == 2


def test_due_timer_cleared_by_another_timer_does_not_fire() -> None:
    timers = {str(number): number for number in range(100)}
    code = Changing(timers, {"40": [(41, None, "event")]}, "event")
    run(PLAN, code, [batch(Row(b"a"))])
    assert [int(tag) for tag in code.fired[b"a", GLOBAL]] == [n for n in range(100) if n != 41]
    assert code.calls.count(b"a") == 1


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
def test_timers_fired_together_have_same_results_as_timers_fired_one_by_one(
    timers: dict[str, int], changes: dict[str, list[Change]], family: str, windows: str
) -> None:
    places = [GLOBAL] if windows == "global" else [window(0, 10), window(10, 20)]
    options: dict[str, Any] = (
        {} if windows == "global" else {"strategy": FIXED if windows == "fixed" else SESSIONS}
    )
    options["batches"] = [batch(*(Row(key, 0, place) for key in (b"a", b"b") for place in places))]
    together, one_by_one = (Changing(timers, changes, family) for _ in range(2))
    run(PLAN, together, **options)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stateful, "_DUE_TOGETHER", 1)
        run(PLAN, one_by_one, **options)
    assert together.fired == one_by_one.fired
    assert rounds(together) <= rounds(one_by_one)
