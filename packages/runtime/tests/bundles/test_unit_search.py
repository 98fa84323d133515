"""Tests of the search for failing units (elements, groups, timers) of a bundle: the found set, its
cost, and the failures that it can't explain.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import pytest
from beam_runner_worker.errors import BundleError
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_runtime.bundles.unit_search import (
    TrialFailure,
    UnitSearchFailed,
    find_failing_units,
)


class Trials:
    """Bundle of `count` units (elements), read in chunks of `chunk` units. The poisoned units fail."""

    def __init__(
        self, count: int, poisoned: Collection[int], chunk: int = 1, *, is_named: bool = False
    ) -> None:
        self._count, self._poisoned, self._chunk = count, frozenset(poisoned), chunk
        self._is_named = is_named
        self.runs = 0

    def run(self, excluded: Collection[int], limit: int | None) -> TrialFailure | None:
        self.runs += 1
        last = self._count if limit is None else min(limit, self._count)
        for number in range(last):
            if number in self._poisoned and number not in excluded:
                end = min(last, (number // self._chunk + 1) * self._chunk)
                error = BundleError("step", f"poison {number}", "")
                return TrialFailure(error, end, is_named=self._is_named)
        return None

    def search(self, most: int = 1000) -> dict[int, BundleError]:
        first = self.run((), None)
        assert first is not None
        self.runs = 0
        return dict(find_failing_units(self.run, first, most, lambda error: True))


@st.composite
def bundles(draw: st.DrawFn) -> Trials:
    count = draw(st.integers(1, 300))
    poisoned = draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=12))
    chunk = draw(st.integers(1, 400))
    return Trials(count, poisoned, chunk, is_named=draw(st.booleans()))


@given(bundles())
def test_element_search_finds_exactly_the_failing_elements_at_logarithmic_cost(
    trials: Trials,
) -> None:
    found = trials.search()
    assert found.keys() == trials._poisoned
    assert [error.summary for error in found.values()] == [f"poison {n}" for n in found]
    steps = math.ceil(math.log2(trials._count)) if trials._count > 1 else 0
    assert trials.runs <= 1 + len(found) * (steps + 1 + trials._is_named)


@given(st.sets(st.integers(0, 299), min_size=1, max_size=12))
def test_element_search_checks_named_elements_with_two_trials_each(poisoned: set[int]) -> None:
    trials = Trials(300, poisoned, is_named=True)
    assert trials.search().keys() == poisoned
    assert trials.runs <= 1 + 2 * len(poisoned)


def test_element_search_stops_if_the_bundle_fails_without_input() -> None:
    def run(excluded: Collection[int], limit: int | None) -> TrialFailure | None:
        return TrialFailure(BundleError("step", "no connection", ""), 1)

    with pytest.raises(UnitSearchFailed):
        find_failing_units(run, TrialFailure(BundleError("step", "x", ""), 5), 9, lambda _: True)


def test_element_search_stops_if_excluding_the_element_changes_nothing() -> None:
    def run(excluded: Collection[int], limit: int | None) -> TrialFailure | None:
        if limit is not None and limit < 3:
            return None
        return TrialFailure(BundleError("step", "reading fails", ""), 3)

    with pytest.raises(UnitSearchFailed):
        find_failing_units(run, TrialFailure(BundleError("step", "x", ""), 3), 9, lambda _: True)


def test_element_search_stops_at_the_limit() -> None:
    trials = Trials(50, range(50))
    with pytest.raises(UnitSearchFailed):
        trials.search(most=7)
    assert trials.runs <= 1 + 7 * 7


def test_element_search_refuses_failures_of_other_steps() -> None:
    trials = Trials(50, [7])
    first = trials.run((), None)
    assert first is not None
    with pytest.raises(UnitSearchFailed):
        find_failing_units(trials.run, first, 9, lambda error: error.transform != "step")
    assert trials.runs == 1


def test_element_search_finds_failing_element_of_step_that_buffers_elements() -> None:
    """The step fails only when its buffer is full or the bundle ends, long after the poisoned element."""

    def run(excluded: Collection[int], limit: int | None) -> TrialFailure | None:
        buffer: list[int] = []
        for number in range(100 if limit is None else limit):
            if number not in excluded:
                buffer.append(number)
            if len(buffer) == 10:
                if 13 in buffer:
                    return TrialFailure(BundleError("step", "x", ""), number + 1)
                buffer.clear()
        return TrialFailure(BundleError("step", "x", ""), limit or 100) if 13 in buffer else None

    first = run((), None)
    assert first is not None
    assert list(find_failing_units(run, first, 9, lambda _: True)) == [13]
