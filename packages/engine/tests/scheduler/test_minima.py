"""Property tests that minima agree with `min` over all times."""

from __future__ import annotations

from collections import Counter

import pytest
from beam_runner_model.times import MAX_TIMESTAMP
from hypothesis import given
from hypothesis import strategies as st

from beam_runner_engine.scheduler.minima import KeyedMinimum, TimeMultiset


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(1, 3)), max_size=200))
def test_counted_times_agree_with_a_counter(changes: list[tuple[bool, int, int]]) -> None:
    times, model = TimeMultiset(), Counter[int]()
    for add, time, count in changes:
        if add:
            times.add_time(time, count)
            model[time] += count
        elif model[time] < count:
            with pytest.raises(ValueError, match="more than added"):
                times.remove_time(time, count)
        else:
            times.remove_time(time, count)
            model[time] -= count
        assert times.get_earliest_time() == min((+model), default=MAX_TIMESTAMP)
        assert len(times) == len(+model)


@given(st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(0, 50)), max_size=200))
def test_keyed_minimum_agrees_with_a_dictionary(changes: list[tuple[int, int | None]]) -> None:
    minimum: KeyedMinimum[int] = KeyedMinimum()
    model: dict[int, int] = {}
    for key, time in changes:
        minimum.set_time(key, time)
        model.pop(key, None)
        if time is not None:
            model[key] = time
        assert minimum.get_earliest_time() == min(model.values(), default=MAX_TIMESTAMP)
        assert len(minimum) == len(model)
    due = list(minimum.pop_due_keys(25))
    assert due == [key for _, key in sorted((t, k) for k, t in model.items()) if model[key] <= 25]
    assert len(minimum) == len(model) - len(due)


def test_number_of_stale_heap_entries_is_bounded() -> None:
    times, minimum = TimeMultiset(), KeyedMinimum[int]()
    times.add_time(0)
    minimum.set_time(0, 0)
    for time in range(1, 10_000):
        times.add_time(time)
        times.remove_time(time)
        minimum.set_time(1, time)
    assert len(times._heap) < 50
    assert len(minimum._heap) < 50
