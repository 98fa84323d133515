"""Tests of the sentences about retried bundles and unavailable neighbours."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from beam_runner_model.failures import FailedBundle, FailureCause
from beam_runner_model.jobs import Importance, JobMetrics
from beam_runner_model.observation import Execution
from beam_runner_model.rendering import render_record
from beam_runner_model.waits import Wait, WaitKind
from starlette.testclient import TestClient
from waiting import eventually

from beam_runner_web.causes.facts import CauseKind

from ..conftest import Observed, Server, causes, kinds, stage

FAILED = FailedBundle(
    "s",
    7,
    ("Read", "Count"),
    2,
    FailureCause.USER_CODE,
    "Count",
    "ValueError: no",
    "('k', 1)",
    next_in=8.0,
)
AWAY = FailedBundle(
    "s",
    8,
    ("Count",),
    kind=FailureCause.UNAVAILABLE,
    error="the disk of /s is unavailable: full",
    neighbour="the disk of /s",
    away=42.0,
    next_in=15.0,
)


@pytest.fixture
def job(server: Server) -> Any:
    server.kind = Observed
    return server.submit(streaming=True)


def first_cause(web: TestClient, job: Any, begins: str) -> tuple[str, str]:
    assert eventually(lambda: causes(web, job)[0][1].startswith(begins)), causes(web, job)
    return causes(web, job)[0]


def test_failed_bundle_is_reported_with_step_element_attempts_and_next_attempt(
    web: TestClient, job: Any
) -> None:
    job.runs = Execution(failed=(FAILED,))
    weight, text = first_cause(web, job, "attempt 2 at a bundle of Count failed")
    assert weight == "WARN"
    assert text == render_record(FAILED, who="Count")
    assert "in 8 s: ValueError: no, while processing the element ('k', 1)" in text
    page = web.get(f"/jobs/{job.id}/now").text
    assert "Failed bundles" in page
    assert "ValueError: no" in page
    (told,) = web.get(f"/api/v1/jobs/{job.id}/failed-bundles").json()["failed-bundles"]
    assert (told["attempts"], told["next_in"]) == (2, 8.0)


def test_repeatedly_failing_bundles_are_reported_as_errors_in_one_sentence(
    web: TestClient, job: Any
) -> None:
    often = attrs.evolve(FAILED, attempts=9, kind=FailureCause.OUTSIDE, next_in=None, element="")
    job.runs = Execution(failed=(often, attrs.evolve(FAILED, bundle=9)))
    weight, text = first_cause(web, job, "attempt 9 at a bundle of Count failed outside of")
    assert weight == "BAD"
    assert text.endswith("ValueError: no (one of 2 bundles)")


@pytest.mark.parametrize(("away", "weight"), [(42.0, "WARN"), (301.0, "BAD")])
def test_cause_mentions_service_for_which_bundle_waits(
    web: TestClient, job: Any, away: float, weight: str
) -> None:
    job.runs = Execution(failed=(attrs.evolve(AWAY, away=away),))
    found, text = first_cause(web, job, "a bundle of Count waits for the disk of /s")
    assert found == weight
    assert "will be retried in 15 s" in text
    assert kinds(web, job) == [WaitKind.NEIGHBOUR]


def test_cause_mentions_service_for_which_job_waits(web: TestClient, job: Any) -> None:
    away = Wait(
        WaitKind.NEIGHBOUR,
        neighbour="the placement of worker processes",
        reason="no executor",
        seconds=61.0,
        until=108_000,
    )
    job.runs = Execution(waits=(away,), now=100_000)
    weight, text = first_cause(web, job, "the job waits for the placement of worker processes")
    assert weight == "WARN"
    assert text.endswith("for 61 s: no executor; the next attempt starts in 8 s")
    assert "no executor" in web.get(f"/jobs/{job.id}/now").text


def test_causes_omit_job_message_about_reported_failure(web: TestClient, job: Any) -> None:
    trace = "ValueError: no [while running 'Count']\nTraceback (most recent call last):\n"
    job.reporter.report_message(Importance.WARNING, f"tried again: {trace}", record=FAILED)
    assert eventually(lambda: CauseKind.ERROR in kinds(web, job))
    retry = Wait(WaitKind.RETRY, "s", ("Count",), count=1)
    job.runs = Execution(failed=(FAILED,), waits=(retry,), still=6.0)
    assert eventually(lambda: kinds(web, job) == [CauseKind.FAILED_BUNDLE]), kinds(web, job)


def test_stage_with_only_paused_bundles_is_described_as_waiting(web: TestClient, job: Any) -> None:
    job.given = JobMetrics((stage("s", "Count", "paused_bundles", 3),))

    assert eventually(
        lambda: "Failed, waiting for a retry" in web.get(f"/jobs/{job.id}/stages").text
    )
    assert "beam_stage_paused_bundles" in web.get("/metrics").text
    steps = web.get(f"/api/v1/jobs/{job.id}/steps").json()
    assert {one["name"]: one["state"] for one in steps["steps"]}["Count"] == "waiting"
