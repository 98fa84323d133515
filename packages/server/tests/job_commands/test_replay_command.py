"""Tests that the command `replay` passes on its arguments, and prints the report."""

from __future__ import annotations

import json

import pytest
from beam_runner_jobservices.client import JobClient
from beam_runner_model.replays import ReplayProblem, ReplayReport, UnreplayedUnits

from beam_runner_server.job_commands import replay_command

from .conftest import FakeServer

REPORT = ReplayReport(5, 2, 3, (UnreplayedUnits(ReplayProblem.EXPIRED, "Parse", 4),))


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[ReplayReport]:
    """Answers requests with the first report of a list, and returns the list."""
    reports = [REPORT]

    def replay_quarantine(self: JobClient, job_id: str, url: str, *, expired: bool) -> ReplayReport:
        assert (url, expired) == ("s3://b/q", True)
        return reports[0]

    monkeypatch.setattr(JobClient, "replay_quarantine", replay_quarantine)
    return reports


def test_replay_command_prints_counts_and_problems(
    server: FakeServer, reports: list[ReplayReport], capsys: pytest.CaptureFixture[str]
) -> None:
    server.submit("one")
    arguments = ("one", "s3://b/q", "--include-expired")
    assert server.run("replay", *arguments) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("replayed: 5, 2 ")
    assert lines[1].endswith("3")
    assert lines[2].startswith("not replayed: 4 of step Parse: ")
    assert server.run("replay", "--json", *arguments) == 1
    assert json.loads(capsys.readouterr().out)["problems"][0]["problem"] == "expired"
    reports[0] = ReplayReport(earlier=3)
    assert server.run("replay", *arguments) == 0


def test_replay_command_has_a_reason_for_each_problem() -> None:
    assert set(replay_command._REASONS) == {str(problem) for problem in ReplayProblem}


def test_replay_command_for_job_without_quarantine_fails_with_reason(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.submit("one")
    assert server.run("replay", "one", "/folder") == 1
    assert "has no quarantine" in capsys.readouterr().err
