"""Tests of the probes: they need no token, and their answers contain nothing about jobs or the server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from beam_runner_model.readiness import Readiness
from starlette.testclient import TestClient

from beam_runner_web.app import create_app
from beam_runner_web.settings import WebSettings

from ..conftest import Server


class ReadinessSource:
    """The readiness that a test sets."""

    value = Readiness.READY

    def check(self) -> Readiness:
        return self.value


@pytest.fixture
def source() -> ReadinessSource:
    return ReadinessSource()


@pytest.fixture
def probed(server: Server, source: ReadinessSource) -> Iterator[TestClient]:
    """Returns a client without a token that sends the address of a pod as the host name."""
    settings = WebSettings(server.address, token="s3cret", root_path="/beam")
    app = create_app(settings, check_readiness=source.check)
    with TestClient(app, base_url="http://10.1.2.3:8074", follow_redirects=False) as client:
        yield client


def test_health_probes_of_ready_server_succeed_without_token(probed: TestClient) -> None:
    for path in ("/healthz", "/readyz"):
        answer = probed.get(path)
        assert (answer.status_code, answer.text) == (200, "ok\n")


@pytest.mark.parametrize("readiness", [one for one in Readiness if one is not Readiness.READY])
def test_health_probes_of_unready_server_report_one_sentence(
    probed: TestClient, source: ReadinessSource, readiness: Readiness
) -> None:
    source.value = readiness
    assert probed.get("/healthz").status_code == 200
    answer = probed.get("/readyz")
    assert answer.status_code == 503
    assert answer.text.count(".") == 1 and answer.text.endswith(".\n")


def test_readiness_probe_without_job_server_fails_and_hides_its_address(
    server: Server, probed: TestClient
) -> None:
    server.server.stop(grace=0)
    assert probed.get("/healthz").status_code == 200
    answer = probed.get("/readyz")
    assert answer.status_code == 503
    assert server.address not in answer.text and answer.text.count("\n") == 1


def test_health_probe_response_without_token_contains_no_job(
    server: Server, probed: TestClient
) -> None:
    job = server.submit(name="secret work")
    for path in ("/healthz", "/readyz"):
        answer = probed.get(path)
        assert "secret work" not in answer.text and job.id not in answer.text


@pytest.mark.parametrize("path", ["/", "/healthz/jobs", "/readyz2", "/metrics"])
def test_paths_other_than_probes_require_host_name(probed: TestClient, path: str) -> None:
    assert probed.get(path).status_code == 421


@pytest.mark.parametrize("path", ["/healthz/", "/readyz2", "/healthzjobs"])
def test_paths_other_than_probes_require_token(probed: TestClient, path: str) -> None:
    assert probed.get(path, headers={"host": "localhost"}).status_code == 303


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_probes_refuse_unsafe_methods(probed: TestClient, path: str) -> None:
    assert probed.post(path).status_code == 421
    assert probed.post(path, headers={"host": "localhost"}).status_code == 401
