"""Tests of log messages about failed bundles and absent neighbours: step, element, attempts, and time
of the next attempt.
"""

from __future__ import annotations

from typing import Any

import attrs
from beam_runner_engine.scheduler.events import BundleFailed, FailureKind, Tick
from beam_runner_engine.scheduler.specs import Pauses
from beam_runner_model.failures import FailedBundle, FailureCause
from beam_runner_runtime.channel.attempts import FailedStep, LostProcess
from ledger_jobs import CHAIN, Job, failed, rows

from beam_runner_driver.reports.failure_reports import (
    MOST_MESSAGES,
    FailureMessages,
    describe_failed_bundles,
)

STREAM: dict[str, Any] = {
    "user_attempts": None,
    "outside_attempts": None,
    "pauses": Pauses(4_000, 64_000),
}
TRACE = "ValueError: no [while running 'Step']\nThe element: 'x'\nTraceback"


def user_failure(number: int, attempt: int) -> BundleFailed:
    detail = FailedStep("Step", "ValueError: no", "'x'")
    return BundleFailed(number, attempt, TRACE, FailureKind.USER, detail=detail)


def test_failure_message_names_step_element_attempt_and_pause_once() -> None:
    job, messages = Job(CHAIN, **STREAM), FailureMessages(CHAIN)
    job.apply(user_failure(0, 1))
    (line,) = messages.list_new_messages(job.ledger, 500, skips=False)
    said = "attempt 1 at a bundle of 'the read step' failed and will be retried in 4 s: "
    assert line.text == said + TRACE
    (record,) = describe_failed_bundles(job.ledger, CHAIN, 500)
    assert line.record == record
    assert (record.kind, record.step, record.element) == (FailureCause.USER_CODE, "Step", "'x'")
    assert (record.attempts, record.next_in) == (1, 3.5)
    assert messages.list_new_messages(job.ledger, 600, skips=False) == []
    job.apply(Tick(4_000))
    job.apply(BundleFailed(0, 2, "the disk is full", FailureKind.UNAVAILABLE, "the disk of /s"))
    (line,) = messages.list_new_messages(job.ledger, 4_000, skips=False)
    assert isinstance(line.record, FailedBundle)
    assert (line.record.kind, line.record.attempts) == (FailureCause.UNAVAILABLE, 1)
    assert (line.record.neighbour, line.record.next_in) == ("the disk of /s", 1.0)
    job.apply(Tick(5_000))
    job.apply(user_failure(0, 3))
    (line,) = messages.list_new_messages(job.ledger, 5_000, skips=False)
    assert line.text.startswith("attempt 2 at a bundle"), "an outage is no attempt"


def test_failures_reported_by_earlier_server_are_not_repeated() -> None:
    job, messages = Job(CHAIN, **STREAM), FailureMessages(CHAIN)
    job.apply(user_failure(0, 1))
    assert messages.list_new_messages(job.ledger, 0, skips=True) == []
    assert messages.list_new_messages(job.ledger, 0, skips=False) == []


def test_failure_of_bundle_that_was_committed_later_is_reported() -> None:
    job, messages = Job(CHAIN), FailureMessages(CHAIN)
    (bundle,) = job.open("read")
    lost = failed(bundle, FailureKind.OUTSIDE, "the worker process 1 on h was lost")
    job.apply(attrs.evolve(lost, detail=LostProcess("h", 1)))
    job.commit(*job.open("read"))
    (line,) = messages.list_new_messages(job.ledger, 0, skips=False)
    assert isinstance(line.record, FailedBundle)
    assert (line.record.kind, line.record.attempts) == (FailureCause.LOST_PROCESS, 1)
    assert (line.record.host, line.record.pid) == ("h", 1)
    assert line.text.endswith("the worker process 1 on h was lost")


def test_many_simultaneous_failures_are_reported_with_their_number() -> None:
    job, messages = Job(CHAIN, parallelism=60, **STREAM), FailureMessages(CHAIN)
    job.commit(*job.open("read"), *(rows("f", number) for number in range(60)))
    found = job.open("end")
    for bundle in found:
        job.apply(failed(bundle, FailureKind.USER))
    lines = messages.list_new_messages(job.ledger, 0, skips=False)
    assert len(lines) == MOST_MESSAGES + 1
    assert lines[-1].text == f"{len(found) - MOST_MESSAGES} more bundles failed at the same time"
    assert len(describe_failed_bundles(job.ledger, CHAIN, 0)) <= 50
