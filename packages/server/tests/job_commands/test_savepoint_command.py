"""Tests that the command `savepoint` passes on the job and the URL, and prints the result."""

from __future__ import annotations

import json

import pytest
from beam_runner_jobservices.client import JobClient
from beam_runner_model.savepoints import Savepoint

from .conftest import FakeServer


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Answers requests for savepoints, and returns a list of them."""
    found: list[tuple[str, str]] = []

    def make_savepoint(self: JobClient, job_id: str, url: str) -> Savepoint:
        found.append((job_id, url))
        return Savepoint(url, job_id, files=3, size=2048)

    monkeypatch.setattr(JobClient, "make_savepoint", make_savepoint)
    return found


def test_savepoint_command_prints_the_savepoint_and_the_option_to_start_from_it(
    server: FakeServer, requests: list[tuple[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    server.submit("one")
    assert server.run("savepoint", "one", "s3://b/p") == 0
    assert requests[0][1] == "s3://b/p"
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("at s3://b/p: 3 files, 2 KiB")
    assert lines[1].endswith("--beam_spark_from_savepoint=s3://b/p")
    assert server.run("savepoint", "--json", "one", "s3://b/p") == 0
    assert json.loads(capsys.readouterr().out)["files"] == 3


def test_savepoint_command_on_server_without_savepoints_fails_with_reason(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.submit("one")
    assert server.run("savepoint", "one", "/folder") == 1
    assert "support savepoints" in capsys.readouterr().err
