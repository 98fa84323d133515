"""Tests of large jobs: 2,000 steps in 700 stages, 50 jobs, 10,000 log lines. Pages stay small and fast."""

from __future__ import annotations

import time

import pytest
from beam_runner_model.jobs import Importance, JobMetrics, MessageLine
from starlette.testclient import TestClient

from .conftest import Server, add_step, count, stage, user, wall, word_count

STEPS = 2_000
STAGES = 700
LINES = 10_000
LONGEST_PAGE = 400_000
# The goal is at most 0.3 s on an idle machine. CI machines are slower and busy.
MOST_CPU_SECONDS = 1.2


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> object:
    server = Server(tmp_path_factory.mktemp("large"))
    pipeline = word_count()
    for number in range(STEPS):
        name = f"A step with a name of some length/and a part with one, too/ParDo {number}"
        ends = {"in": f"p{number}"}, {"out": f"p{number + 1}"}
        add_step(pipeline, f"s{number}", name, *ends)
        pipeline.components.transforms["root"].subtransforms.append(f"s{number}")
    job = server.submit(pipeline)
    names = [pipeline.components.transforms[f"s{number}"].unique_name for number in range(STEPS)]
    infos = []
    for number, name in enumerate(names):
        infos += [count(f"p{number}", number), wall(f"s{number}", number), user(name, "seen", 1)]
    for number in range(STAGES):
        for field in ("output_watermark", "backlog_bytes", "open_bundles", "began", "last_at_work"):
            infos.append(stage(f"stage-{number}", names[number], field, 1_790_000_000_000))
    job.given = JobMetrics(tuple(infos), tuple(info for info in infos if "user" in info.urn))
    text = "a line of log about as long as they usually are, with a number: "
    job.reporter.report_messages(
        MessageLine(Importance.WARNING, f"{text}{number}" * (1 + number % 7), names[number % STEPS])
        for number in range(LINES)
    )
    for _ in range(49):
        server.submit(name="a-job-with-a-name-of-some-length")
    yield server
    server.close()


@pytest.mark.parametrize(
    "part", ["", "/stages", "/now", "/logs", "/errors", "/metrics", "/environment"]
)
def test_page_of_large_job_is_small_and_fast(
    large: Server, web_of_large: TestClient, part: str
) -> None:
    path = f"/jobs/{large.jobs[0].id}{part}"
    assert web_of_large.get(path).status_code == 200
    seconds = []
    for _ in range(3):
        web_of_large.get("/healthz")
        began = time.process_time()
        page = web_of_large.get(path)
        seconds.append(time.process_time() - began)
    print(f"{part or 'overview'}: {len(page.content)} bytes, {min(seconds) * 1000:.0f} ms of CPU")
    assert len(page.content) < LONGEST_PAGE
    assert min(seconds) < MOST_CPU_SECONDS


def test_page_with_list_of_fifty_jobs_is_small_and_fast(
    large: Server, web_of_large: TestClient
) -> None:
    began = time.process_time()
    page = web_of_large.get("/")
    assert page.text.count("a-job-with-a-name-of-some-length") >= 49
    assert len(page.content) < LONGEST_PAGE
    assert time.process_time() - began < MOST_CPU_SECONDS


@pytest.fixture(scope="module")
def web_of_large(large: Server) -> object:
    from beam_runner_web.app import create_app
    from beam_runner_web.settings import WebSettings

    app = create_app(WebSettings(large.address))
    with TestClient(app, base_url="http://localhost", follow_redirects=False) as client:
        yield client
