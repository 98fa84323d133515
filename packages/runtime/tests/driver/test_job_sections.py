"""Tests of a running job with sections, from its first state to its last."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from beam_runner_engine.scheduler.policy import DefaultSectionPolicy
from beam_runner_engine.scheduler.specs import Limits
from beam_runner_model.jobs import JobState
from section_doubles import EXPECTED, PLAN, TRANSFORMS, broken, refused
from servers import SECONDS, FakeSpark, Server

from beam_runner_runtime.channel.messages import RunBundle, WorkerHello
from beam_runner_runtime.channel.server import WorkerLink
from beam_runner_runtime.sections.ends import SectionEnd
from beam_runner_runtime.shutdown.limits import LIMITS

New = Callable[..., Server]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "teardown_seconds", 2.0)
    monkeypatch.setattr(LIMITS, "abort_seconds", 1.0)


@pytest.fixture
def new(tmp_path: Path) -> Iterator[New]:
    servers: list[Server] = []

    def make(**more: Any) -> Server:
        for server in servers:
            server.stop()
        policy = DefaultSectionPolicy()
        server = Server(tmp_path, plan=PLAN, transforms=TRANSFORMS, section_policy=policy, **more)
        servers.append(server)
        return server

    yield make
    servers[-1].stop()


class Blocked:
    """A section that runs until its Spark job is cancelled."""

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


def test_cancel_does_not_wait_for_section(new: New) -> None:
    server = new()
    server.spark.section = blocked = Blocked()
    server.start()
    assert blocked.begun.wait(SECONDS)
    server.job.cancel()
    assert server.wait() is JobState.CANCELLED
    assert server.spark.cancelled.is_set()
    assert not server.folder.exists()


def test_section_messages_of_workers_reach_only_its_runner(new: New) -> None:
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


def test_running_section_is_continued_by_next_server(new: New) -> None:
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


def test_spark_exit_costs_section_no_attempt(new: New) -> None:
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
