"""Tests that the in-memory runner of the documentation runs as the documentation describes."""

from __future__ import annotations

import runpy
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from beam_runner_model.strategy import WindowingStrategy
from beam_runner_model.triggers import AfterCount, AfterProcessingTime, Delay, Repeatedly
from beam_runner_model.window_fns import (
    FixedWindows,
    GlobalWindows,
    SlidingWindows,
    WindowFn,
    assign_windows,
)
from beam_runner_model.windows import Window
from hypothesis import given, settings
from hypothesis import strategies as st

PATH = Path(__file__).resolve().parents[3] / "docs" / "engine" / "in_memory_runner.py"
runner = SimpleNamespace(**runpy.run_path(str(PATH)))


def test_documented_example_prints_expected_counts(capsys: pytest.CaptureFixture[str]) -> None:
    runner.main()
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "until 10000 ms: be 2",
        "until 10000 ms: not 1",
        "until 10000 ms: or 1",
        "until 10000 ms: question 1",
        "until 10000 ms: the 1",
        "until 10000 ms: to 2",
        "until 20000 ms: is 1",
        "until 20000 ms: that 1",
    ]


def values(rows: Any) -> list[Any]:
    return sorted(row.value for row in rows)


def test_side_input_of_an_element_contains_only_values_of_its_window() -> None:
    """Checks elements and side inputs of two windows in one stored output, which bundles must
    separate by window.
    """
    ten = FixedWindows(10)
    result = runner.run(
        runner.read("main", [(5, [(1, "a"), (12, "b")]), (15, [(12, "c")])]),
        runner.read("side", [(3, [(2, 1), (3, 10)]), (25, [(11, 20), (13, 30)])]),
        runner.flat_map("main windows", "main", lambda value: [value], ten),
        runner.flat_map("side windows", "side", lambda value: [value], ten),
        runner.flat_map(
            "joined",
            "main windows",
            lambda value, side: [(value, sorted(side))],
            sides=["side windows"],
            side_windows=ten,
        ),
    )
    assert values(result["joined"]) == [("a", [1, 10]), ("b", [20, 30]), ("c", [20, 30])]


def test_side_input_data_with_several_windows_is_split_by_window() -> None:
    ten = FixedWindows(10)
    both = [(1, 1), (12, 2)]
    result = runner.run(
        runner.read("numbers", [(20, both)]),
        runner.flat_map("windows", "numbers", lambda value: [value], ten),
        runner.flat_map(
            "joined",
            "windows",
            lambda value, side: [(value, side)],
            sides=["windows"],
            side_windows=ten,
        ),
    )
    assert values(result["joined"]) == [(1, [1]), (2, [2])]


def test_count_trigger_emits_early_panes() -> None:
    strategy = WindowingStrategy(trigger=Repeatedly(AfterCount(2)))
    result = runner.run(
        runner.read("numbers", [(1, [(0, ("k", 1)), (0, ("k", 2))]), (2, [(1, ("k", 3))])]),
        runner.group_by_key("grouped", "numbers", strategy),
    )
    assert values(result["grouped"]) == [("k", [1, 2]), ("k", [3])]


def test_failing_stage_is_named_with_its_exception() -> None:
    with pytest.raises(RuntimeError, match=r"stage 'broken' failed.*ZeroDivisionError"):
        runner.run(runner.flat_map("broken", "impulse", lambda value: [1 // 0]))


def test_processing_time_of_the_in_memory_runner_advances_when_no_work_is_left() -> None:
    """Uses a source that takes one step per second."""
    soon, late = (
        WindowingStrategy(trigger=Repeatedly(AfterProcessingTime((Delay(delay),))))
        for delay in (500, 1_500)
    )
    result = runner.run(
        runner.read("numbers", [(1, [(0, ("k", number))]) for number in range(4)]),
        runner.group_by_key("each", "numbers", soon),
        runner.group_by_key("pairs", "numbers", late),
    )
    assert values(result["each"]) == [("k", [0]), ("k", [1]), ("k", [2]), ("k", [3])]
    assert values(result["pairs"]) == [("k", [0, 1]), ("k", [2, 3])]


@settings(max_examples=50)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 40), st.sampled_from("abcdef")), max_size=6),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from((FixedWindows(10), GlobalWindows(), SlidingWindows(20, 10))),
)
def test_grouping_of_random_input_equals_a_dictionary(
    steps: list[list[tuple[int, str]]], window_fn: WindowFn
) -> None:
    """Uses steps with exact watermarks, so no element is late."""
    read = []
    watermark = 0
    expected = Counter[tuple[str, Window]]()
    for step in steps:
        timed = [(watermark + ahead, (key, 1)) for ahead, key in step]
        expected.update(
            (key, window) for time, (key, _) in timed for window in assign_windows(window_fn, time)
        )
        watermark += 15
        read.append((watermark, timed))
    result = runner.run(
        runner.read("read", read),
        runner.flat_map("windowed", "read", lambda pair: [pair], window_fn),
        runner.group_by_key("grouped", "windowed", WindowingStrategy(window_fn)),
    )
    found = {(row.value[0], row.window): sum(row.value[1]) for row in result.get("grouped", ())}
    assert found == expected
    assert len(found) == len(result.get("grouped", ())), "a window fired twice"
