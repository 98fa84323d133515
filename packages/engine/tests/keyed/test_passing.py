"""Tests of timers and panes: whether they fire when a clock or watermark is at a time, or only
after the time.
"""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from beam_runner_model.times import MAX_TIMESTAMP, MIN_TIMESTAMP, get_earliest_watermark_after

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


def test_documented_due_time_table_has_the_expected_rows() -> None:
    assert set(runpy.run_path(str(SCRIPT))["MOMENTS"]) == set(EXPECTED)


@pytest.mark.parametrize("row", EXPECTED)
def test_due_time_matches_the_row_of_the_documented_table(row: str) -> None:
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
def test_watermark_that_passes_a_time_is_one_millisecond_later(time: int, watermark: int) -> None:
    assert get_earliest_watermark_after(time) == watermark
