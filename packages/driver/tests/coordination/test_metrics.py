"""Tests of metrics: committed metrics count every committed bundle once, and attempted metrics include
running bundles.
"""

from __future__ import annotations

from apache_beam.coders import VarIntCoder
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_urns import metrics as metric_urns

from beam_runner_driver.coordination.metrics import JobMetricsSum

INTEGER = VarIntCoder()


def count(number: int) -> tuple[MonitoringInfo, ...]:
    payload = INTEGER.encode(number)
    return (MonitoringInfo("beam:metric:x", metric_urns.SUM_INT64_TYPE, (("NAME", "n"),), payload),)


def totals(tally: JobMetricsSum) -> tuple[int, int]:
    """Returns the committed and the attempted value."""
    found = tally.compute_totals()
    committed, attempted = (
        sum(INTEGER.decode(info.payload) for info in infos)
        for infos in (found.committed, found.attempted)
    )
    return committed, attempted


def test_job_metrics_are_empty_at_start() -> None:
    assert totals(JobMetricsSum()) == (0, 0)


def test_metrics_last_reported_by_lost_bundles_count_as_attempted() -> None:
    tally = JobMetricsSum()
    tally.record_progress(Attempt(1, 1), count(1))
    tally.record_progress(Attempt(1, 1), count(3))
    tally.record_progress(Attempt(2, 1), count(10))
    assert totals(tally) == (0, 13)


def test_metrics_of_processes_of_a_section_are_summed() -> None:
    """Each process reported its part, and the last report was used as the total."""
    tally = JobMetricsSum()
    for number in (1, 3):
        tally.record_progress(Attempt(1, 1), count(number), "one")
    tally.record_progress(Attempt(1, 1), count(10), "other")
    assert totals(tally) == (0, 13)
    tally.record_failure(Attempt(1, 1))
    tally.record_progress(Attempt(1, 2), count(5), "one")
    assert totals(tally) == (0, 18)
    tally.record_commit(Attempt(1, 2), count(20))
    assert totals(tally) == (20, 33)


def test_metrics_of_commit_replace_progress_reports_of_its_bundle() -> None:
    tally = JobMetricsSum()
    tally.record_progress(Attempt(1, 1), count(3))
    tally.record_progress(Attempt(2, 1), count(100))
    tally.record_commit(Attempt(1, 1), [*count(5), *count(6)])
    assert totals(tally) == (11, 111)


def test_metrics_of_abandoned_attempt_count_only_as_attempted() -> None:
    tally = JobMetricsSum()
    tally.record_progress(Attempt(1, 1), count(4))
    tally.record_failure(Attempt(1, 1))
    tally.record_failure(Attempt(1, 1))
    tally.record_commit(Attempt(1, 2), count(7))
    assert totals(tally) == (7, 11)


def test_metrics_of_abandoned_attempts_are_stored_as_sum() -> None:
    tally = JobMetricsSum()
    for attempt in range(100):
        tally.record_progress(Attempt(1, attempt), count(1))
        tally.record_failure(Attempt(1, attempt))
    assert totals(tally) == (0, 100)
    assert not tally._attempts


def test_metrics_of_bundles_are_summed() -> None:
    tally = JobMetricsSum()
    tally.record_commit(Attempt(1, 1), count(1))
    tally.record_commit(Attempt(2, 1), count(2))
    assert totals(tally) == (3, 3)


def test_metrics_include_commits_of_earlier_server() -> None:
    tally = JobMetricsSum(count(40))
    tally.record_commit(Attempt(1, 1), count(2))
    assert totals(tally) == (42, 42)


def test_metrics_retain_labels_and_types() -> None:
    tally = JobMetricsSum()
    tally.record_commit(Attempt(1, 1), count(1))
    (info,) = tally.compute_totals().committed
    assert info.labels == {"NAME": "n"}
    assert info.type == metric_urns.SUM_INT64_TYPE
