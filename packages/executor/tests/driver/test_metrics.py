"""Committed metrics count every committed task once; attempted ones also what is under way."""

from __future__ import annotations

from apache_beam.coders import VarIntCoder
from beam_runner_urns import metrics as metric_urns
from beam_runner_worker.records import MonitoringInfo

from beam_spark_executor.channel.messages import TaskName
from beam_spark_executor.driver.metrics import MetricsTally

INTEGER = VarIntCoder()


def count(number: int) -> tuple[MonitoringInfo, ...]:
    payload = INTEGER.encode(number)
    return (MonitoringInfo("beam:metric:x", metric_urns.SUM_INT64_TYPE, (("NAME", "n"),), payload),)


def task(section: str, partition: int, attempt: int) -> TaskName:
    return TaskName(section, "stage0", partition, attempt)


def totals(tally: MetricsTally) -> tuple[int, int]:
    """Committed and attempted."""
    found = tally.totals()
    committed, attempted = (
        sum(INTEGER.decode(info.payload) for info in infos)
        for infos in (found.committed, found.attempted)
    )
    return committed, attempted


def test_nothing_yet() -> None:
    assert totals(MetricsTally()) == (0, 0)


def test_what_tasks_say_last_counts_as_attempted() -> None:
    tally = MetricsTally()
    tally.progressed(task("a-0", 0, 1), count(1))
    tally.progressed(task("a-0", 0, 1), count(3))
    tally.progressed(task("a-0", 1, 2), count(10))
    assert totals(tally) == (0, 13)


def test_a_commit_replaces_what_its_tasks_said() -> None:
    tally = MetricsTally()
    tally.progressed(task("a-0", 0, 1), count(3))
    tally.progressed(task("b-0", 0, 2), count(100))
    tally.committed("a-0", [*count(5), *count(6)])
    assert totals(tally) == (11, 111)


def test_an_attempt_that_was_given_up_stays_attempted_only() -> None:
    tally = MetricsTally()
    tally.progressed(task("a-0", 0, 1), count(4))
    tally.committed("a-1", count(7))
    assert totals(tally) == (7, 11)


def test_sections_add_up() -> None:
    tally = MetricsTally()
    tally.committed("a-0", count(1))
    tally.committed("b-0", count(2))
    assert totals(tally) == (3, 3)


def test_labels_and_types_come_through() -> None:
    tally = MetricsTally()
    tally.committed("a-0", count(1))
    (info,) = tally.totals().committed
    assert info.labels == {"NAME": "n"}
    assert info.type == metric_urns.SUM_INT64_TYPE
