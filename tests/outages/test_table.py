"""Tests that the table of outages counts job outcomes, and separates correct from wrong outcomes."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from runs import Result
from table import Row, is_right, page, summary


def row(place: str = "data", **more: Any) -> Row:
    result = {"outcome": "exact", "given": 10, **more.pop("result", {})}
    made = attrs.asdict(Result(place, "embedded", "midst", **result))
    facts = {"counts_absence": False, "is_told": True, "names_neighbour": False, "seconds": 5.0}
    facts |= {"seed": 1, "site": "one store", "number": 0, "on": "Spark", "kind": "stall"}
    return Row(**{**facts, "neighbour": "object store", **more}, result=made)


@pytest.mark.parametrize(
    ("found", "outcome", "right"),
    [
        (row(), "exact", True),
        (row(result={"outcome": "hang"}), "hang", False),
        (row(result={"outcome": "inexact", "lost": 3}), "3 lost", False),
        (row(result={"attempts_failed": 2}, counts_absence=True), "exact, but 2 attempts counted", False),
        (row(result={"outcome": "FAILED"}, names_neighbour=True), "FAILED, names the neighbour", False),
        (row("batch", result={"outcome": "FAILED"}, names_neighbour=True), "FAILED, names the neighbour", True),
        (row("batch", result={"outcome": "FAILED"}), "FAILED", False),
    ],
)  # fmt: skip
def test_outage_table_row_is_right_only_for_the_expected_outcome(
    found: Row, outcome: str, right: bool
) -> None:
    assert (found.outcome, is_right(found)) == (outcome, right)


def test_outage_page_has_a_line_for_each_location_with_counts() -> None:
    rows = [row(), row(number=1, seconds=120.0), row(result={"outcome": "hang"})]
    assert page(rows).splitlines()[2:] == [
        "| object store | stall | data | embedded | Spark | 2 | 1 |  | 2 exact; 1 hang |"
    ]


def test_outage_summary_counts_outages_and_not_jobs() -> None:
    text = summary([row(), row("batch"), row(number=1, seconds=600.0)])
    assert text.startswith("2 outages (1 up to 30 s, 1 longer) with 3 jobs: 3 exact;")
