"""The in-memory runner of the documentation runs, and does what the documentation says."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

from beam_runner_engine.values.strategy import WindowingStrategy
from beam_runner_engine.values.triggers import AfterCount, Repeatedly
from beam_runner_engine.values.window_fns import FixedWindows

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
