"""Tests of the report of a shadow run."""

from __future__ import annotations

from beam_runner_model.shadows import StepOutcome, StepTotals, TimeSlot, TimeSlotTotal

from beam_runner_driver.updates.shadow_reports import ProgramResult, make_shadow_report

SLOT = TimeSlot(0, 1000)


def totals(hashes: int) -> StepTotals:
    return StepTotals(5000, {SLOT: TimeSlotTotal(1, hashes)})


def test_steps_are_matched_by_names_and_mapping() -> None:
    old = {"A": totals(1), "B": totals(2), "Gone": totals(3), "Map(<lambda at x.py:1>)": totals(4)}
    new = {"A": totals(1), "C": totals(9), "New": totals(3), "Map(<lambda at x.py:7>)": totals(4)}
    report = make_shadow_report(
        ProgramResult(old), ProgramResult(new, "KeyError"), tuple(old), tuple(new), {"B": "C"}, 7.0
    )
    found = [(one.outcome, one.before, one.step) for one in report.steps]
    assert found[0] == (StepOutcome.DIFFERENT, "B", "C")
    assert set(found[1:]) == {
        (StepOutcome.EQUAL, "", "A"),
        (StepOutcome.EQUAL, "Map(<lambda at x.py:1>)", "Map(<lambda at x.py:7>)"),
        (StepOutcome.REMOVED, "", "Gone"),
        (StepOutcome.ADDED, "", "New"),
    }
    assert (report.seconds, report.old_failure, report.new_failure) == (7.0, "", "KeyError")
