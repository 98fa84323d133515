"""Failed bundles and absent neighbours in words: step, element, attempts, and when the next one begins."""

from __future__ import annotations

from typing import Any

from beam_runner_engine.scheduler import BundleFailed, FailureKind, Pauses, Tick
from beam_runner_jobservices.failures import is_retried
from ledger_jobs import CHAIN, READERS, Job, failed, rows

from beam_runner_runtime.channel.attempts import FailedStep
from beam_runner_runtime.driver.failure_reports import (
    MOST_MESSAGES,
    FailureMessages,
    failed_bundles,
    waits_for_retries,
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


def test_message_of_a_failure_names_step_element_attempt_and_pause_once() -> None:
    job, messages = Job(CHAIN, **STREAM), FailureMessages(CHAIN)
    job.apply(user_failure(0, 1))
    (text,) = messages.look(job.ledger, 500, skips=False)
    said = "attempt 1 at a bundle of 'the read step' failed, and it is tried again in 4 s: "
    assert text == said + TRACE
    assert is_retried(text)
    assert messages.look(job.ledger, 600, skips=False) == []
    job.apply(Tick(4_000))
    job.apply(BundleFailed(0, 2, "the disk is full", FailureKind.UNAVAILABLE, "the disk of /s"))
    (text,) = messages.look(job.ledger, 4_000, skips=False)
    assert text == (
        "a bundle of 'the read step' waits for a neighbour, and is tried again in 1 s, which counts as"
        " no attempt: the disk is full"
    )
    assert not is_retried(text)
    job.apply(Tick(5_000))
    job.apply(user_failure(0, 3))
    (text,) = messages.look(job.ledger, 5_000, skips=False)
    assert text.startswith("attempt 2 at a bundle"), "an outage is no attempt"


def test_failures_that_an_earlier_server_has_told_are_not_told_again() -> None:
    job, messages = Job(CHAIN, **STREAM), FailureMessages(CHAIN)
    job.apply(user_failure(0, 1))
    assert messages.look(job.ledger, 0, skips=True) == []
    assert messages.look(job.ledger, 0, skips=False) == []


def test_failure_of_a_bundle_that_is_committed_by_now_is_told() -> None:
    job, messages = Job(CHAIN), FailureMessages(CHAIN)
    job.apply(failed(*job.open("read"), cause="the worker process 1 on h was lost"))
    job.commit(*job.open("read"))
    (text,) = messages.look(job.ledger, 0, skips=False)
    assert text == (
        "attempt 1 at a bundle failed, and it is tried again: the worker process 1 on h was lost"
    )


def test_many_failures_at_a_time_are_counted() -> None:
    job, messages = Job(CHAIN, parallelism=60, **STREAM), FailureMessages(CHAIN)
    job.commit(*job.open("read"), *(rows("f", number) for number in range(60)))
    found = job.open("end")
    for bundle in found:
        job.apply(failed(bundle, FailureKind.USER))
    texts = messages.look(job.ledger, 0, skips=False)
    assert len(texts) == MOST_MESSAGES + 1
    assert texts[-1] == f"{len(found) - MOST_MESSAGES} more bundles failed at the same time"
    assert len(failed_bundles(job.ledger, CHAIN, 0)) <= 50


def test_waits_name_what_each_bundle_waits_for() -> None:
    job = Job(READERS, **STREAM)
    job.commit(*job.open("read"), rows("f", 0))
    one, two = *job.open("one"), *job.open("two")
    job.apply(user_failure(one.number, 1))
    job.apply(BundleFailed(two.number, 1, "away", FailureKind.UNAVAILABLE, "the store"))
    assert list(waits_for_retries(job.ledger.retries(), READERS, 0)) == [
        "'the one step' waits 4 s for another attempt at a bundle that failed once",
        "'the two step' waits for the store, and tries again in 1 s",
    ]
    job.apply(Tick(1_000))
    assert len(list(waits_for_retries(job.ledger.retries(), READERS, 1_000))) == 1
