"""Tests of the costs of a job, which are the sums over its stages."""

from __future__ import annotations

from beam_runner_jobservices.figures.costs import JobCosts, compute_cpu_seconds, compute_job_costs
from beam_runner_jobservices.figures.step_metrics import StageFigures

MEASURED = StageFigures("a", "A", slot_seconds=4.0, cpu_seconds=3.0, peak_memory_bytes=500)
LARGER = StageFigures("b", "B", slot_seconds=2.0, cpu_seconds=1.0, peak_memory_bytes=700)
IN_HARNESS = StageFigures("c", "C", slot_seconds=1.0)
NOT_STARTED = StageFigures("d", "D")


def test_job_costs_are_sums_over_stages_and_largest_memory() -> None:
    assert compute_job_costs([MEASURED, LARGER, NOT_STARTED]) == JobCosts(6.0, 4.0, 700)
    assert compute_cpu_seconds([MEASURED, LARGER, NOT_STARTED]) == 4.0


def test_job_costs_count_stages_without_measured_cpu_time() -> None:
    assert compute_job_costs([MEASURED, IN_HARNESS]) == JobCosts(5.0, 3.0, 500, 1)
    assert compute_cpu_seconds([MEASURED, IN_HARNESS]) is None
    assert compute_job_costs([IN_HARNESS]) == JobCosts(1.0, None, None, 1)


def test_job_costs_of_server_that_reports_none_are_unknown() -> None:
    assert compute_job_costs([NOT_STARTED]) is None
    assert compute_cpu_seconds([]) is None
