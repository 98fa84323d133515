"""The in-memory runner of the documentation runs, and does what the documentation says."""

from __future__ import annotations

import runpy
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beam_runner_engine.values.strategy import WindowingStrategy
from beam_runner_engine.values.triggers import AfterCount, Repeatedly
from beam_runner_engine.values.window_fns import (
    FixedWindows,
    GlobalWindows,
    SlidingWindows,
    WindowFn,
    assign_windows,
)
from beam_runner_engine.values.windows import Window

PATH = Path(__file__).resolve().parents[3] / "docs" / "engine" / "in_memory_runner.py"
runner = SimpleNamespace(**runpy.run_path(str(PATH)))


def test_the_example(capsys: pytest.CaptureFixture[str]) -> None:
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


def values(rows: object) -> list[object]:
    return sorted(row.value for row in rows)  # type: ignore[attr-defined]


def test_side_inputs_of_a_window() -> None:
    ten = FixedWindows(10)
    result = runner.InMemoryRunner(
        {
            "main": runner.Read(((5, [(1, "a")]), (15, [(12, "b")]))),
            "side": runner.Read(((3, [(2, 1)]), (25, [(11, 10), (13, 20)]))),
            "main windows": runner.FlatMap("main", lambda value: [value], windows=ten),
            "side windows": runner.FlatMap("side", lambda value: [value], windows=ten),
            "joined": runner.FlatMap(
                "main windows",
                lambda value, side: [(value, sorted(side))],
                sides=("side windows",),
                side_windows=ten,
            ),
        }
    ).run()
    assert values(result["joined"]) == [("a", [1]), ("b", [10, 20])]


def test_early_panes_by_trigger() -> None:
    strategy = WindowingStrategy(trigger=Repeatedly(AfterCount(2)))
    result = runner.InMemoryRunner(
        {
            "numbers": runner.Read(((1, [(0, ("k", 1)), (0, ("k", 2))]), (2, [(1, ("k", 3))]))),
            "grouped": runner.GroupByKey("numbers", strategy),
        }
    ).run()
    assert values(result["grouped"]) == [("k", [1, 2]), ("k", [3])]


def test_a_failure_names_the_stage_and_the_exception() -> None:
    pipeline = {"broken": runner.FlatMap("impulse", lambda value: [1 // 0])}
    with pytest.raises(RuntimeError, match=r"stage 'broken' failed.*ZeroDivisionError"):
        runner.InMemoryRunner(pipeline).run()


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 40), st.sampled_from("abcdef")), max_size=6),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from((FixedWindows(10), GlobalWindows(), SlidingWindows(20, 10))),
)
def test_both_halves_group_what_a_dictionary_groups(
    steps: list[list[tuple[int, str]]], window_fn: WindowFn
) -> None:
    """Steps come with watermarks that are true: no element is late."""
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
    result = runner.InMemoryRunner(
        {
            "read": runner.Read(tuple(read)),
            "windowed": runner.FlatMap("read", lambda pair: [pair], windows=window_fn),
            "grouped": runner.GroupByKey("windowed", WindowingStrategy(window_fn)),
        }
    ).run()
    found = {(row.value[0], row.window): sum(row.value[1]) for row in result.get("grouped", ())}
    assert found == expected
    assert len(found) == len(result.get("grouped", ())), "a window fired twice"
