"""Tests of due times at a time and after the time, for timers and panes in one table."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP, get_passing_watermark

SCRIPT = Path(__file__).resolve().parents[4] / "docs" / "engine" / "draw_keyed_tables.py"
EXPECTED = {
    "element at T": ("on time", "on time", "late"),
    "timer in event time, set for T": ("waits", "waits", "rings"),
    "time-sorted element at T": ("waits", "waits", "goes on"),
    "default trigger, the last timestamp of the window is T": ("waits", "waits", "fires"),
    "window of a grouping, its expiry is T": ("open", "open", "closed"),
    "window of user state, its expiry is T": ("open", "open", "expired"),
    "timer in processing time, set for T": ("waits", "rings", "rings"),
    "`AfterProcessingTime`, due at T": ("waits", "fires", "fires"),
}


def test_documented_table_has_the_expected_rows() -> None:
    assert set(runpy.run_path(str(SCRIPT))["MOMENTS"]) == set(EXPECTED)


@pytest.mark.parametrize("row", EXPECTED)
def test_due_time_matches_the_documented_row(row: str) -> None:
    moment = runpy.run_path(str(SCRIPT))["MOMENTS"][row]
    assert (moment(-1), moment(0), moment(1)) == EXPECTED[row]


@pytest.mark.parametrize(
    ("time", "watermark"),
    [
        (MIN_TIMESTAMP, MIN_TIMESTAMP + 1),
        (0, 1),
        (MAX_TIMESTAMP - 1, MAX_TIMESTAMP),
        (MAX_TIMESTAMP, MAX_TIMESTAMP),
    ],
)
def test_passing_watermark_is_one_millisecond_later_and_clamped(time: int, watermark: int) -> None:
    assert get_passing_watermark(time) == watermark
