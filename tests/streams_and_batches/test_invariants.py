"""Tests of the pane check: for each invariant, panes that break it."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import attrs
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "differential"))
sys.path.insert(0, str(Path(__file__).parent))

from pane_invariants import (
    EARLY,
    LATE,
    ON_TIME,
    Pane,
    broken_sequences,
    broken_values,
    given_by,
    late_panes_with_others,
    missing,
    panes_of,
    wrongly_dropped,
)

FIXED = ("fixed", 10, 0)
SPAN = (1000, 1010)
PARTITION = (
    0,
    (
        ("element", "k", 1, 1000),
        ("element", "k", 2, 1005),
        ("element", "k", 3, 1030),
        ("late", "k", 4, 1006),
    ),
)
GIVEN = given_by([PARTITION])


def pane(values: list[int], timing: int, index: int, later: int, last: bool = False) -> Pane:
    return Pane("k", SPAN, Counter(values), timing, index, later, index == 0, last)


EARLY_PANE, ON_TIME_PANE = pane([1], EARLY, 0, -1), pane([2], ON_TIME, 1, 0)
LATE_PANE = pane([4], LATE, 2, 1, last=True)
RIGHT = [EARLY_PANE, ON_TIME_PANE, LATE_PANE]


def test_watermark_recorded_with_a_late_element_is_that_of_its_partition() -> None:
    assert GIVEN[4].late and not GIVEN[3].late
    assert GIVEN[4].watermark == 1031 and GIVEN[1].watermark == 1000
    assert GIVEN[4].may_be_behind(1009) and not GIVEN[2].may_be_behind(1009)


def test_recorded_rows_are_parsed_as_panes() -> None:
    rows = Counter(["('k', (1,)) [1000-1010] @1009 pane 0 0 -1 10", "('k', 4) [1000-1010]"])
    read = panes_of(rows)
    assert read[0] == EARLY_PANE
    assert (read[1].key, read[1].span, read[1].values) == ("k", SPAN, Counter([4]))


def test_pane_check_accepts_correct_panes() -> None:
    assert not list(broken_sequences(RIGHT))
    assert not list(broken_values(RIGHT, GIVEN, FIXED, accumulating=False))
    assert not list(late_panes_with_others(RIGHT, GIVEN, accumulating=False))
    assert missing(RIGHT, GIVEN, FIXED) == {(3, (1030, 1040)): 1}


@pytest.mark.parametrize(
    "wrong",
    [
        [EARLY_PANE, attrs.evolve(LATE_PANE, later=0)],
        [EARLY_PANE, EARLY_PANE, ON_TIME_PANE],
        [attrs.evolve(EARLY_PANE, is_first=False)],
        [EARLY_PANE, attrs.evolve(ON_TIME_PANE, is_last=True), LATE_PANE],
        [
            EARLY_PANE,
            attrs.evolve(ON_TIME_PANE, timing=LATE),
            attrs.evolve(LATE_PANE, timing=EARLY),
        ],
        [EARLY_PANE, ON_TIME_PANE, attrs.evolve(LATE_PANE, timing=ON_TIME)],
        [EARLY_PANE, ON_TIME_PANE, attrs.evolve(LATE_PANE, later=2)],
        [attrs.evolve(EARLY_PANE, later=0)],
    ],
)
def test_pane_check_reports_a_wrong_pane_sequence(wrong: list[Pane]) -> None:
    assert list(broken_sequences(wrong))


def test_pane_check_reports_an_element_in_two_panes() -> None:
    twice = [EARLY_PANE, attrs.evolve(ON_TIME_PANE, values=Counter([1, 2]))]
    assert list(broken_values(twice, GIVEN, FIXED, accumulating=False))
    assert not list(broken_values(twice, GIVEN, FIXED, accumulating=True))


def test_pane_check_reports_an_accumulating_pane_without_previous_elements() -> None:
    assert list(broken_values(RIGHT, GIVEN, FIXED, accumulating=True))


def test_pane_check_reports_an_element_in_a_wrong_window() -> None:
    foreign = [attrs.evolve(EARLY_PANE, values=Counter([3]))]
    assert list(broken_values(foreign, GIVEN, FIXED, accumulating=False))


def test_pane_check_reports_a_late_pane_with_an_on_time_element() -> None:
    late = [EARLY_PANE, attrs.evolve(LATE_PANE, values=Counter([2, 4]), index=1, later=0)]
    assert list(late_panes_with_others(late, GIVEN, accumulating=False))


def test_pane_check_reports_a_dropped_element_of_an_open_window() -> None:
    window = (4, SPAN)
    assert not list(wrongly_dropped([window], GIVEN, lateness=0))
    assert list(wrongly_dropped([window], GIVEN, lateness=100))
    assert list(wrongly_dropped([(2, SPAN)], GIVEN, lateness=0))
