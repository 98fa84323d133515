"""Tests with Beam's own job server, and with Prism if it is installed.

Pages show the data of the Job API, and omit everything else.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.local_job_service import LocalJobServicer
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobApiError
from starlette.testclient import TestClient
from waiting import eventually

from beam_runner_web.app import create_app
from beam_runner_web.settings import WebSettings

GO = threading.Event()


class Tell(beam.DoFn):
    """A DoFn that counts elements, and waits for the test."""

    def process(self, word: str) -> Iterator[str]:
        Metrics.counter("mine", "words").inc()
        GO.wait(60)
        if word == "bad":
            raise ValueError("a bad word")
        yield word


@pytest.fixture(scope="module", params=["LocalJobServicer", "Prism"])
def endpoint(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    if request.param == "Prism":
        binary = shutil.which("prism")
        if binary is None:
            pytest.skip(
                "there is no prism: go install github.com/apache/beam/sdks/v2/go/cmd/prism@v2.77.0"
            )
        yield from prism(binary)
    else:
        servicer = LocalJobServicer(str(tmp_path_factory.mktemp("staging")))
        port = servicer.start_grpc_server(0)
        yield f"localhost:{port}"
        servicer.stop()


def prism(binary: str) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    flags = (f"--job_port={port}", "--serve_http=false", "--log_level=error")
    process = subprocess.Popen([binary, *flags])
    try:
        with JobClient(f"localhost:{port}") as client:
            assert eventually(lambda: answers(client))
        yield f"localhost:{port}"
    finally:
        process.terminate()
        process.wait(10)


def answers(client: JobClient) -> bool:
    try:
        client.list_jobs()
    except JobApiError:
        return False
    return True


@pytest.fixture
def web(endpoint: str) -> Iterator[TestClient]:
    app = create_app(WebSettings(endpoint))
    with TestClient(app, base_url="http://localhost", follow_redirects=False) as client:
        yield client


def submit(endpoint: str, *words: str) -> Any:
    options = PipelineOptions(
        [],
        runner="PortableRunner",
        job_endpoint=endpoint,
        environment_type="LOOPBACK",
        job_name="told",
    )
    pipeline = beam.Pipeline(options=options)
    pipeline | "Words" >> beam.Create(words, reshuffle=False) | "Tell" >> beam.ParDo(Tell())
    return pipeline.run()


def job_of(web: TestClient) -> str:
    return str(web.get("/api/v1/jobs").json()["jobs"][-1]["id"])


def test_web_pages_show_job_of_other_server_from_start_to_end(
    endpoint: str, web: TestClient
) -> None:
    GO.clear()
    result = submit(endpoint, "a", "b")
    page = web.get("/").text
    assert ">told<" in page
    job = job_of(web)
    shown = web.get(f"/jobs/{job}").text
    assert "Words" in shown and "Tell" in shown
    for part in ("/stages", "/now", "/logs", "/errors", "/metrics", "/environment", "/end"):
        assert web.get(f"/jobs/{job}{part}").status_code == 200, part
    assert web.get(f"/jobs/{job}/stacks").status_code == 501
    GO.set()
    result.wait_until_finish()
    assert eventually(lambda: "done" in web.get(f"/jobs/{job}").text)
    assert "words" in web.get(f"/jobs/{job}/metrics").text


def test_web_pages_show_failure_reason_of_other_server(endpoint: str, web: TestClient) -> None:
    GO.set()
    result = submit(endpoint, "bad")
    with pytest.raises(RuntimeError):
        result.wait_until_finish()
    job = job_of(web)
    assert eventually(lambda: "a bad word" in web.get(f"/jobs/{job}").text)
    errors = web.get(f"/jobs/{job}/errors").text
    assert "ValueError" in errors and Path(__file__).name in errors


def test_web_pages_forward_cancel_to_other_server_and_show_its_drain_error(
    endpoint: str, web: TestClient
) -> None:
    GO.clear()
    submit(endpoint, "a")
    job = job_of(web)
    assert eventually(lambda: "running" in web.get(f"/jobs/{job}").text)
    assert web.post(f"/jobs/{job}/drain").status_code == 501
    assert web.post(f"/jobs/{job}/cancel").status_code == 303
    assert eventually(lambda: web.get(f"/api/v1/jobs/{job}").json()["state"] == "CANCELLED")
    assert web.post(f"/jobs/{job}/cancel").status_code == 409
    GO.set()
