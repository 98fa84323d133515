"""Tests of a job with sections (stages that run as one Spark job), from the job's first state to
its last.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest
from beam_runner_engine.scheduler.policy import DefaultSectionPolicy
from beam_runner_engine.scheduler.specs import Limits
from beam_runner_model.jobs import JobState
from beam_runner_runtime.channel.messages import RunBundle, WorkerHello
from beam_runner_runtime.channel.server import WorkerLink
from beam_runner_runtime.sections.ends import SectionEnd
from section_doubles import EXPECTED, PLAN, TRANSFORMS, broken, refused
from servers import SECONDS, FakeSpark, Server

New = Callable[..., Server]


@pytest.fixture
def new(new: New) -> New:
    policy = DefaultSectionPolicy()
    return partial(new, plan=PLAN, transforms=TRANSFORMS, section_policy=policy)


class Blocked:
    """Section that runs until the Spark job of the section is cancelled."""

    def __init__(self) -> None:
        self.begun = threading.Event()

    def __call__(self, spark: FakeSpark, order: RunBundle) -> SectionEnd:
        self.begun.set()
        assert spark.cancelled.wait(SECONDS)
        return broken(order)


def test_job_with_sections_finishes_successfully(new: New) -> None:
    server = new()
    assert server.run() is JobState.DONE
    assert server.seen == EXPECTED
    assert not server.folder.exists()
    assert server.spark.closed == [True]


def test_cancelled_job_does_not_wait_for_its_section(new: New) -> None:
    server = new()
    server.spark.section = blocked = Blocked()
    server.start()
    assert blocked.begun.wait(SECONDS)
    server.job.cancel()
    assert server.wait() is JobState.CANCELLED
    assert server.spark.cancelled.is_set()
    assert not server.folder.exists()


def test_worker_messages_about_section_reach_only_section_runner(new: New) -> None:
    """The runner cancels the Spark job, and reports the result then."""
    server = new()

    def section(spark: FakeSpark, order: RunBundle) -> SectionEnd:
        said = broken(order)
        spark.hears.append(said)
        spark.job.handle_message(WorkerLink(WorkerHello("job-1", "host", 1)), said)
        return refused(order)

    server.spark.section = section
    assert server.run() is JobState.DONE
    assert server.seen == EXPECTED
    assert server.job._ledger.last_failure is None


def test_running_section_is_run_again_by_next_server(new: New) -> None:
    server = new(resumable=True)
    server.spark.section = blocked = Blocked()
    server.start()
    assert blocked.begun.wait(SECONDS)
    server.job.suspend()
    assert server.job.wait_for_end(SECONDS)
    assert server.spark.cancelled.is_set()
    assert not any(state.is_terminal for state, _ in server.reporter.states)
    after = new(resumable=True)
    assert after.run() is JobState.DONE
    assert after.seen == EXPECTED


def test_spark_exit_is_not_counted_as_failed_attempt_of_section(new: New) -> None:
    def section(spark: FakeSpark, order: RunBundle) -> SectionEnd:
        spark.end()
        return broken(order)

    for _ in range(2 * Limits().outside_attempts):
        server = new(resumable=True)
        server.spark.section = section
        server.start()
        assert server.job.wait_for_end(SECONDS)
        assert not any(state.is_terminal for state, _ in server.reporter.states)
    assert new(resumable=True).run() is JobState.DONE
