"""Tests of the sentences about a job without commits: stalled, draining, with a lost process, or
waiting for a start.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from beam_runner_model.failures import FailedBundle, FailureCause
from beam_runner_model.jobs import Importance, JobMetrics, JobState
from beam_runner_model.observation import BundleProcessKind, Execution
from beam_runner_model.rendering import render_record
from beam_runner_model.waits import Wait, WaitKind
from starlette.testclient import TestClient
from waiting import eventually

from beam_runner_web.causes.facts import CauseKind

from ..conftest import Observed, Server, bundle, causes, kinds, stage, waits


@pytest.fixture
def job(server: Server) -> Any:
    server.kind = Observed
    return server.submit()


BUNDLES = Wait(WaitKind.BUNDLES, "s", ("Count",), count=1)
SILENT = Wait(WaitKind.PROCESS, "s", ("Count",), host="node", pid=47, seconds=9.0)
END = Wait(WaitKind.END_OF_INPUT, "w", ("Write",))


@pytest.mark.parametrize(
    ("found", "before", "after"),
    [
        ((BUNDLES,), WaitKind.BUNDLES, None),
        ((SILENT, BUNDLES), WaitKind.PROCESS, WaitKind.PROCESS),
        ((END, BUNDLES), WaitKind.END_OF_INPUT, None),
    ],
)
def test_causes_of_stalled_job_are_only_its_waits(
    web: TestClient, job: Any, found: Any, before: WaitKind, after: WaitKind | None
) -> None:
    job.runs = Execution(waits=found, still=10.0)
    assert eventually(lambda: kinds(web, job) == ["well", before] or kinds(web, job) == [before])
    stands = "The job has committed nothing for 10 s" in causes(web, job)[0][1]
    assert stands == (before is not WaitKind.PROCESS)
    job.runs = Execution((bundle(7, 23.0, 21.5),), waits=found, still=10.0)
    wanted = [CauseKind.STANDING_BUNDLE, *([after] if after else [])]
    assert eventually(lambda: kinds(web, job) == wanted), kinds(web, job)


def test_silent_process_of_stage_with_little_input_is_never_reported_as_healthy(
    web: TestClient, job: Any
) -> None:
    job.given = JobMetrics((stage("s", "Count", "backlog_bytes", 0),))
    job.runs = Execution(waits=(waits("s", "Count", "Read"), SILENT), still=10.0)
    told = causes(web, job)
    assert told[0][0] == "WARN"
    assert "has not responded" in told[0][1]
    assert CauseKind.WELL not in kinds(web, job)


def test_stalled_job_is_reported_although_small_steps_wait(web: TestClient, job: Any) -> None:
    job.given = JobMetrics((stage("w", "Write", "backlog_bytes", 9),))
    job.runs = Execution(waits=(waits("w", "Write", "Count"), BUNDLES), still=40.0)
    assert kinds(web, job) == [WaitKind.BUNDLES, WaitKind.SIDE_INPUT]
    assert causes(web, job)[0][1].startswith("The job has committed nothing for 40 s")


def test_causes_of_progressing_job_omit_temporary_waits(web: TestClient, job: Any) -> None:
    job.runs = Execution(waits=(END, BUNDLES))
    assert kinds(web, job) == [CauseKind.WELL]


@pytest.mark.parametrize("kind", list(WaitKind))
def test_every_kind_of_wait_is_described_or_omitted(
    web: TestClient, job: Any, kind: WaitKind
) -> None:
    wait = Wait(kind, "s", ("Count",), count=1, givers=("Read",), seconds=20.0)
    job.runs = Execution(waits=(wait,), still=9.0)
    for_its_time = (WaitKind.RESUMPTION, WaitKind.TIMER, WaitKind.WATERMARK, WaitKind.UPSTREAM)
    assert kinds(web, job) == [CauseKind.WELL if kind in for_its_time else kind]


def test_drain_that_waits_for_endless_bundle_is_reported_first(web: TestClient, job: Any) -> None:
    job.given = JobMetrics((stage("s", "Count", "open_bundles", 1),))
    job.reporter.report_state(JobState.DRAINING)
    assert eventually(lambda: causes(web, job)[0][1].startswith("The job is being drained: it"))
    assert causes(web, job)[0][1].endswith("Count at work, 0 of 1 stages done.")
    job.runs = Execution((bundle(7, 23.0, 21.5),))
    assert eventually(lambda: causes(web, job)[0][0] == "WARN")
    first, second, *_ = [text for _, text in causes(web, job)]
    assert first.startswith("The drain waits for Count: a bundle runs until its code returns")
    assert first.endswith("if it never does, cancel the job")
    assert second.startswith("Count has processed one bundle for 23 s, without any progress")


def test_stream_that_waits_for_source_and_timers_is_not_stalled(
    server: Server, web: TestClient
) -> None:
    server.kind = Observed
    job = server.submit(streaming=True)
    timer = Wait(WaitKind.TIMER, "s", ("Count",), shard=2, until=179_553)
    mark = Wait(WaitKind.WATERMARK, "s", ("Count",), shard=2, until=99, watermark=5)
    runs = Execution((bundle(7, 7.0, 1.0),), waits=(BUNDLES, timer, mark), still=7.0)
    job.runs = runs
    assert kinds(web, job) == [CauseKind.WELL]
    job.runs = attrs.evolve(runs, waits=(*runs.waits, END))
    assert eventually(lambda: kinds(web, job) == [WaitKind.END_OF_INPUT])


def test_lost_process_is_reported_with_possible_cause(web: TestClient, job: Any) -> None:
    text = "the worker process 47 on node was lost"
    failed = FailedBundle("s", 1, (), 1, FailureCause.LOST_PROCESS, error=text, host="node", pid=47)
    job.reporter.report_message(Importance.WARNING, f"tried again: {text}", record=failed)
    told = web.get(f"/api/v1/jobs/{job.id}").json()["causes"][0]
    assert told["text"] == f"An error occurred once, and the server retried the failed work: {text}"
    assert "memory was short" in told["more"]


def test_bundle_that_waits_for_harness_is_not_reported_as_stuck(web: TestClient, job: Any) -> None:
    starts = Wait(WaitKind.HARNESS, count=1, seconds=90.0)
    job.runs = Execution(
        (bundle(7, 90.0, 90.0, BundleProcessKind.STARTING_HARNESS),), waits=(starts,)
    )
    (told,) = web.get(f"/api/v1/jobs/{job.id}").json()["causes"]
    assert (told["kind"], told["text"]) == (WaitKind.HARNESS, render_record(starts))
    assert "output of the process" in told["more"]


@pytest.mark.parametrize("where", [BundleProcessKind.HARNESS, BundleProcessKind.PROCESS])
def test_harness_that_reports_no_stacks_is_reported_with_hint(
    web: TestClient, job: Any, where: BundleProcessKind
) -> None:
    job.runs = Execution((bundle(7, 23.0, 21.5, where),))
    told = web.get(f"/api/v1/jobs/{job.id}").json()["causes"][0]
    assert "without any progress (process 47 on node)" in told["text"]
    assert ("LOOPBACK" in told["more"]) == (where is BundleProcessKind.HARNESS)
