"""Tests of the line about a job's progress under the title of its pages."""

from __future__ import annotations

import time

import pytest
from apache_beam.portability.api import beam_runner_api_pb2 as runner_api
from beam_runner_model.jobs import JobMetrics, JobState
from beam_runner_model.observation import Execution, StageTimeSeries
from starlette.testclient import TestClient
from waiting import eventually

from ..conftest import Observed, Server, bundle, causes, count, kinds, stage, word_count


def test_progress_line_of_batch_job_has_estimate_and_its_method(
    server: Server, web: TestClient
) -> None:
    server.kind = Observed
    job = server.submit()
    job.given = JobMetrics(
        (
            stage("s", "Count", "open_bundles", 1),
            stage("s", "Count", "pending_elements", 4_700),
            stage("w", "Write", "open_bundles", 0),
        )
    )
    job.runs = Execution((bundle(7, 40.0, 1.0),), slots=12, busy_slots=2)
    found = web.get(f"/api/v1/jobs/{job.id}").json()
    left = "about 1 min left without 1 later stage"
    assert found["progress_text"].endswith(f"{left} · 4,700 elements waiting · 2 of 12 slots")
    assert found["progress"]["seconds_left"] == 60.0
    for page in ("", "/stages", "/logs", "/report.html"):
        text = web.get(f"/jobs/{job.id}{page}").text
        assert left in text
        assert "divided by its rate in the last 10 s" in text
    job.reporter.report_state(JobState.DONE)
    assert eventually(lambda: left not in web.get(f"/jobs/{job.id}").text)


def test_progress_line_of_server_without_stages_is_left_out(
    server: Server, web: TestClient
) -> None:
    job = server.submit()
    job.given = JobMetrics((count("lines", 5),))
    assert web.get(f"/api/v1/jobs/{job.id}").json()["progress_text"] == ""
    assert 'id="progress"' not in web.get(f"/jobs/{job.id}").text


@pytest.mark.parametrize(("waiting", "is_late"), [(88_000, True), (0, False)])
def test_stream_that_falls_behind_is_never_reported_as_healthy(
    server: Server, web: TestClient, waiting: int, is_late: bool
) -> None:
    server.kind = Observed
    pipeline = word_count()
    for one in pipeline.components.pcollections.values():
        one.is_bounded = runner_api.IsBounded.UNBOUNDED
    job = server.submit(pipeline)
    now = time.time()
    job.past = (
        StageTimeSeries(
            "s", tuple((now - ago, int(1000 * (now - 60)), 0, 1, 0) for ago in (50, 30, 10))
        ),
    )
    job.given = JobMetrics(
        (
            stage("s", "Count", "output_watermark", int(1000 * (now - 60))),
            stage("s", "Count", "input_watermark", int(1000 * (now - 60))),
            stage("s", "Count", "pending_elements", waiting),
        )
    )
    found = causes(web, job)
    text = "The stream falls behind: 1 min now, and growing; 88.0 k elements wait for Count"
    assert (found[0] == ("WARN", text)) is is_late, found


def test_progress_line_of_stream_and_drain_has_lag_or_remaining_elements(
    server: Server, web: TestClient
) -> None:
    pipeline = word_count()
    for one in pipeline.components.pcollections.values():
        one.is_bounded = runner_api.IsBounded.UNBOUNDED
    job = server.submit(pipeline)
    late = int(time.time() * 1000) - 340_000
    job.given = JobMetrics(
        (
            stage("s", "Count", "output_watermark", late),
            stage("s", "Count", "input_watermark", late),
            stage("s", "Count", "open_bundles", 8),
            stage("s", "Count", "commit_lag", 305_000),
            stage("s", "Count", "pending_elements", 88_000),
        )
    )
    line = web.get(f"/api/v1/jobs/{job.id}").json()["progress_text"]
    assert line.startswith("88.0 k elements waiting · 5 min 4")
    assert "late" in kinds(web, job)
    job.reporter.report_state(JobState.DRAINING)
    assert eventually(lambda: "left" in web.get(f"/api/v1/jobs/{job.id}").json()["progress_text"])
    line = web.get(f"/api/v1/jobs/{job.id}").json()["progress_text"]
    assert line.startswith("88.0 k elements left · no estimate yet")
    assert not any("keep up" in text for _, text in causes(web, job))
