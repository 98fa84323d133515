"""Tests that the page of a bundle shows the journal entries of the bundle, and escapes them."""

from __future__ import annotations

from beam_runner_model.failures import FailedBundle, FailureCause
from beam_runner_model.jobs import Importance
from beam_runner_model.observation import Execution, ObservedBundle
from beam_runner_model.stories import (
    BundleHistory,
    BundleStatus,
    DataPiece,
    HistoryEvent,
    HistoryEventKind,
)
from starlette.testclient import TestClient

from .conftest import Observed, Server

FAILED = FailedBundle("s3", 2, ("Count",), 1, FailureCause.USER_CODE, "Count", "ValueError: <b>no")
STORY = BundleHistory(
    2,
    BundleStatus.COMMITTED,
    "s3",
    ("Count",),
    5,
    (
        HistoryEvent(
            HistoryEventKind.PLANNED, 7, 1, 800, reads=(DataPiece("input", "b/<x>", 4, 99),)
        ),
        HistoryEvent(HistoryEventKind.FAILED, 8, 1, 900, 0, "host", 12, failure=FAILED),
        HistoryEvent(
            HistoryEventKind.COMMITTED, 9, 2, 950, 1, "host", 13, writes=(DataPiece("counts"),)
        ),
    ),
)


def test_bundle_page_shows_attempts_failures_and_data(server: Server, web: TestClient) -> None:
    server.stories[2] = STORY
    page = web.get(f"/jobs/{server.submit().id}/bundle?number=2").text
    assert "bundle 2 is committed." in page
    assert "planned, attempt 1" in page
    assert "attempt 1 failed on lane 0 by process 12 on host at &#39;Count&#39;" in page
    assert "ValueError: &lt;b&gt;no" in page
    assert "<b>no" not in page
    assert "attempt 2 committed on lane 1 by process 13 on host" in page
    assert "input: 4 elements, 99 bytes, file b/&lt;x&gt;" in page
    assert "counts: 0 elements, 0 bytes, in the journal" in page
    assert "?step=t3" in page, "the step of the bundle is linked"


def test_bundle_page_of_unknown_or_invalid_number_returns_clear_error(
    server: Server, web: TestClient
) -> None:
    job = server.submit()
    page = web.get(f"/jobs/{job.id}/bundle?number=9").text
    assert "the job has no bundle 9: the last one is bundle 2." in page
    for wrong in ("x", "-1", "1" * 16):
        answer = web.get(f"/jobs/{job.id}/bundle?number={wrong}")
        assert answer.status_code == 200
        assert "The number must consist of digits." in answer.text
    assert 'name="number"' in web.get(f"/jobs/{job.id}/bundle").text
    assert web.get("/jobs/none/bundle?number=1").status_code == 404


def test_failures_on_job_page_link_to_page_of_their_bundle(server: Server, web: TestClient) -> None:
    job = server.submit()
    job.reporter.report_message(Importance.WARNING, "attempt 1 failed", record=FAILED)
    page = web.get(f"/jobs/{job.id}/errors").text
    assert f'href="/jobs/{job.id}/bundle?number=2">bundle 2</a>' in page


def test_running_bundles_on_job_page_link_to_bundle_page(server: Server, web: TestClient) -> None:
    server.kind = Observed
    job = server.submit()
    job.runs = Execution((ObservedBundle("s3", 7, 1, ("Count",)),), (FAILED,))
    now = web.get(f"/jobs/{job.id}/now").text
    for number in (2, 7):
        assert f'href="/jobs/{job.id}/bundle?number={number}"' in now
    assert f'href="/jobs/{job.id}/bundle"' in web.get(f"/jobs/{job.id}/stages").text
