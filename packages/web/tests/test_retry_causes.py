"""What is said of bundles that failed and run again, and of neighbours that are away."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from beam_runner_jobservices import (
    OUTSIDE,
    UNAVAILABLE,
    USER_CODE,
    AwaitedNeighbour,
    Execution,
    FailedBundle,
    Importance,
    JobMetrics,
)
from starlette.testclient import TestClient

from .conftest import Observed, Server, causes, eventually, stage

FAILED = FailedBundle(
    "s", 7, ("Read", "Count"), 2, USER_CODE, "Count", "ValueError: no", "('k', 1)", next_in=8.0
)
AWAY = FailedBundle(
    "s",
    8,
    ("Count",),
    kind=UNAVAILABLE,
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


def test_failed_bundle_is_told_with_step_element_attempts_and_next_attempt(
    web: TestClient, job: Any
) -> None:
    job.runs = Execution(failed=(FAILED,))
    weight, text = first_cause(web, job, "Count: ")
    assert weight == "WARN"
    assert text == (
        "Count: a bundle failed 2 times: ValueError: no, at the element ('k', 1); the next attempt"
        " begins in 8.0 s"
    )
    page = web.get(f"/jobs/{job.id}/now").text
    assert "Bundles that failed" in page
    assert "ValueError: no" in page
    (told,) = web.get(f"/api/v1/jobs/{job.id}/failed-bundles").json()["failed-bundles"]
    assert (told["attempts"], told["next_in"]) == (2, 8.0)


def test_bundle_that_fails_often_is_bad_and_several_are_one_sentence(
    web: TestClient, job: Any
) -> None:
    often = attrs.evolve(FAILED, attempts=9, kind=OUTSIDE, next_in=None, element="")
    job.runs = Execution(failed=(often, attrs.evolve(FAILED, bundle=9)))
    weight, text = first_cause(web, job, "Count: one of 2 bundles failed 9 times")
    assert weight == "BAD"
    assert text.endswith("from outside of user code: ValueError: no; another attempt runs now")


@pytest.mark.parametrize(("away", "weight"), [(42.0, "WARN"), (301.0, "BAD")])
def test_bundle_that_waits_for_a_neighbour_names_it(
    web: TestClient, job: Any, away: float, weight: str
) -> None:
    job.runs = Execution(failed=(attrs.evolve(AWAY, away=away),))
    found, text = first_cause(
        web, job, "Count waits for the disk of /s, which has been unavailable"
    )
    assert found == weight
    assert text.endswith("the next attempt begins in 15 s")


def test_job_that_waits_for_a_neighbour_names_it(web: TestClient, job: Any) -> None:
    away = AwaitedNeighbour("the placement of worker processes", "no executor", 61.0, 8.0)
    job.runs = Execution(neighbours=(away,))
    weight, text = first_cause(web, job, "The job waits for the placement of worker processes")
    assert weight == "WARN"
    assert text.endswith("for 1 min 1 s: no executor; the next try is in 8.0 s")
    assert "no executor" in web.get(f"/jobs/{job.id}/now").text


def test_failure_is_not_said_a_second_time_from_messages(web: TestClient, job: Any) -> None:
    trace = "ValueError: no [while running 'Count']\nTraceback (most recent call last):\n"
    said = "attempt 2 at a bundle of 'Count' failed, and it is tried again in 8 s: "
    job.reporter.message(Importance.WARNING, said + trace)
    waits = "'Count' waits 8 s for another attempt at a bundle that failed 2 times"
    job.reporter.message(Importance.BASIC, f"nothing has been committed for 6 s: {waits}")
    assert eventually(lambda: any("An error came once" in text for _, text in causes(web, job)))
    job.runs = Execution(failed=(FAILED,))
    first_cause(web, job, "Count: ")
    texts = [text for _, text in causes(web, job)]
    assert not any("An error came" in text or "committed" in text for text in texts), texts


def test_stage_with_nothing_but_paused_bundles_waits(web: TestClient, job: Any) -> None:
    job.given = JobMetrics((stage("s", "Count", "paused_bundles", 3),))

    assert eventually(lambda: "Failed, run again later" in web.get(f"/jobs/{job.id}/stages").text)
    assert "beam_stage_paused_bundles" in web.get("/metrics").text
    steps = web.get(f"/api/v1/jobs/{job.id}/steps").json()
    assert {one["name"]: one["state"] for one in steps["steps"]}["Count"] == "waiting"
