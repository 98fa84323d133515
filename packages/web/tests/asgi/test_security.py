from __future__ import annotations

import pytest
from beam_runner_model.jobs import JobState
from starlette.testclient import TestClient

from beam_runner_web.app import create_app
from beam_runner_web.settings import WebSettings

from ..conftest import Server


@pytest.mark.parametrize("host", ["localhost", "localhost:8074", "127.0.0.1:1", "[::1]:8074"])
def test_request_with_local_host_name_is_accepted(web: TestClient, host: str) -> None:
    assert web.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "evil:8074", "", "[::1"]
)
def test_request_with_unknown_host_name_is_refused(web: TestClient, host: str) -> None:
    assert web.get("/", headers={"host": host}).status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:1"},
    ],
)
def test_request_from_another_site_cannot_end_job(
    server: Server, web: TestClient, headers: dict[str, str]
) -> None:
    job = server.submit()
    assert web.post(f"/jobs/{job.id}/cancel", headers=headers).status_code == 403
    assert server.client.get_state(job.id).state is JobState.RUNNING


@pytest.mark.parametrize(
    "headers", [{"sec-fetch-site": "same-origin"}, {"origin": "http://localhost"}, {}]
)
def test_request_from_same_origin_can_cancel_job(
    server: Server, web: TestClient, headers: dict[str, str]
) -> None:
    job = server.submit()
    assert web.post(f"/jobs/{job.id}/cancel", headers=headers).status_code == 303


def test_get_request_does_not_end_job(server: Server, web: TestClient) -> None:
    job = server.submit()
    assert web.get(f"/jobs/{job.id}/cancel").status_code == 405
    assert server.client.get_state(job.id).state is JobState.RUNNING


def test_responses_have_security_headers(web: TestClient) -> None:
    for path in ("/", "/nothing", "/static/web.css", "/api/v1/jobs"):
        headers = web.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


def test_read_only_pages_show_jobs_and_cannot_end_jobs(server: Server) -> None:
    job = server.submit()
    app = create_app(WebSettings(server.address, read_only=True))
    with TestClient(app, base_url="http://localhost") as web:
        assert "End the job" not in web.get(f"/jobs/{job.id}").text
        assert web.post(f"/jobs/{job.id}/cancel").status_code == 403
    assert server.client.get_state(job.id).state is JobState.RUNNING


def test_browser_sends_web_token_once_and_then_uses_cookie(server: Server) -> None:
    app = create_app(WebSettings(server.address, token="s3cret"))
    with TestClient(app, base_url="http://localhost", follow_redirects=False) as web:
        assert web.get("/").headers["location"] == "/login"
        assert web.get("/api/v1/jobs").status_code == 401
        assert web.get("/metrics").status_code == 401
        assert web.post("/jobs/x/cancel").status_code == 401
        assert web.post("/login", data={"token": "wrong"}).status_code == 403
        bearer = {"authorization": "Bearer s3cret"}
        assert web.get("/api/v1/jobs", headers=bearer).status_code == 200
        done = web.post("/login", data={"token": "s3cret"})
        cookie = done.headers["set-cookie"].lower()
        assert "httponly" in cookie and "samesite=strict" in cookie
        assert web.get("/").status_code == 200
