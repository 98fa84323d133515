from __future__ import annotations

import re
import time

from beam_runner_model.jobs import JobMetrics, JobState
from beam_runner_model.observation import StageTimeSeries
from starlette.testclient import TestClient
from waiting import eventually

from ..conftest import Observed, Server, stage

START = 1_790_000_000_000


def test_timeline_of_finished_job_shows_activity_of_stages(server: Server, web: TestClient) -> None:
    job = server.submit()
    job.given = JobMetrics(
        (
            stage("a", "Count", "began", START),
            stage("a", "Count", "last_at_work", START + 1_500),
            stage("b", "Write", "began", START + 500),
            stage("b", "Write", "last_at_work", START + 2_000),
            stage("b", "Write", "bundles_committed", 7),
        )
    )
    job.reporter.report_state(JobState.DONE)
    page = web.get(f"/jobs/{job.id}/stages").text
    assert 'aria-label="from 0 s to 1.5 s"' in page
    assert 'aria-label="from 0.5 s to 2.0 s"' in page
    assert page.index("from 0 s") < page.index("from 0.5 s")
    assert "<b>7</b>" in page
    assert "Bundles running" not in page


def test_timeline_includes_time_before_first_page_view(server: Server, web: TestClient) -> None:
    server.kind = Observed
    job = server.submit()
    now = time.time()
    points = tuple((now - 1800 + 10 * n, START, 1000 * n, 1, 20 * n) for n in range(180))
    job.past = (StageTimeSeries("s", points),)
    job.given = JobMetrics(
        (
            stage("s", "Count", "output_watermark", START),
            stage("s", "Count", "backlog_bytes", 5),
            stage("s", "Count", "bundles_committed", 3600),
        )
    )
    page = web.get(f"/jobs/{job.id}/stages").text
    assert "waiting: <b>5 B</b> <small>at most 179 KB in 30 min</small>" in page
    assert "bundles per second: <b>" in page
    job.reporter.report_state(JobState.DONE)
    eventually(lambda: "done</span>" in web.get(f"/jobs/{job.id}").text)
    ended = web.get(f"/jobs/{job.id}/stages").text
    assert re.search(r"waiting: <b>.{3,9}</b> <small>at most 17\d KB in (29|30) min</small>", ended)
    assert "bundles per second: <b>" in ended


def test_timeline_of_server_without_history_is_empty(server: Server, web: TestClient) -> None:
    job = server.submit()
    job.given = JobMetrics((stage("s", "Count", "backlog_bytes", 5),))
    page = web.get(f"/jobs/{job.id}/stages").text
    assert "at most" not in page


def test_timeline_on_overview_page_of_stream_shows_latest_stage(
    server: Server, web: TestClient
) -> None:
    server.kind = Observed
    for streaming in (True, False):
        job = server.submit(streaming=streaming)
        now = time.time()
        points = tuple((now - 900 + 10 * n, START, 1000 * n, 1, n) for n in range(90))
        job.past = (StageTimeSeries("s", points), StageTimeSeries("w", points))
        late, later = int((now - 5) * 1000), int((now - 60) * 1000)
        job.given = JobMetrics(
            (
                stage("w", "Write", "output_watermark", late),
                stage("s", "Count", "output_watermark", later),
            )
        )
        page = web.get(f"/jobs/{job.id}").text
        assert ("The stage furthest behind" in page) == streaming
        assert (f'href="/jobs/{job.id}/stages#stage-s">Count</a>' in page) == streaming
        chosen = web.get(f"/jobs/{job.id}?step=t4").text
        assert ("watermark behind: <b>" in chosen) == streaming
