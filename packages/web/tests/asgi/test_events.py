from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from beam_runner_model.jobs import JobMetrics, JobState
from waiting import eventually

from beam_runner_web.server import WebServer
from beam_runner_web.settings import WebSettings

from ..conftest import Server, count


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    web = WebServer(WebSettings(server.address, port=0))
    web.start()
    yield web.url.rstrip("/")
    web.stop()


def events(response: httpx.Response) -> Iterator[tuple[str, Any]]:
    name = ""
    for line in response.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def test_event_stream_sends_changes_and_ends_with_job(server: Server, url: str) -> None:
    job = server.submit()
    with httpx.stream("GET", f"{url}/jobs/{job.id}/events?page=", timeout=20) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        stream = events(response)
        _, first = next(stream)
        assert set(first) >= {"live_head", "live_causes", "live_graph", "live_panel", "live_steps"}
        job.given = JobMetrics((count("lines", 4321),))
        changed = next(parts for _, parts in stream if "live_steps" in parts)
        assert "4,321" in changed["live_steps"]
        assert "live_tabs" not in changed
        job.reporter.report_state(JobState.DONE)
        rest = list(stream)
    assert rest[-1][0] == "end"
    assert any("done" in parts.get("live_head", "") for name, parts in rest if name == "parts")


def test_job_is_not_polled_without_open_pages(server: Server, url: str) -> None:
    job = server.submit()
    with httpx.stream("GET", f"{url}/jobs/{job.id}/events?page=", timeout=20) as response:
        next(events(response))
        assert job.asked > 0

    def is_quiet() -> bool:
        before = job.asked
        return not eventually(lambda: job.asked > before, 2.5)

    assert is_quiet()


def test_seven_pages_share_polled_data(server: Server, url: str) -> None:
    job = server.submit()
    address = f"{url}/jobs/{job.id}/events?page="
    with httpx.Client(timeout=20) as client:
        opened = [client.stream("GET", address) for _ in range(7)]
        streams = [events(one.__enter__()) for one in opened]
        for stream in streams:
            assert next(stream)[0] == "parts"
        before = job.asked
        job.given = JobMetrics((count("lines", 99),))
        for stream in streams:
            next(stream)
        assert job.asked - before <= 4
        for one in opened:
            one.__exit__(None, None, None)


def test_page_without_event_stream_requests_all_parts(server: Server, url: str) -> None:
    job = server.submit()
    job.reporter.report_state(JobState.DONE)
    found = httpx.get(f"{url}/jobs/{job.id}/events?page=logs&once=1").json()
    assert found["over"] and "The log is empty" in found["parts"]["live_lines"]


def test_unknown_page_has_no_event_stream(server: Server, url: str) -> None:
    job = server.submit()
    assert httpx.get(f"{url}/jobs/{job.id}/events?page=none").status_code == 404
