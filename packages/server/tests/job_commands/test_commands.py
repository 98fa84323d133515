"""Tests of the commands that list, describe, cancel and drain the jobs of a server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from beam_runner_jobservices.guard import read_access_guard
from beam_runner_model.jobs import JobState

from .conftest import FakeJob, FakeServer


def test_list_command_prints_jobs_newest_first(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert server.run("jobs") == 0
    assert "has no jobs" in capsys.readouterr().out
    first, second = server.submit("first"), server.submit("second")
    first.reporter.report_state(JobState.FAILED, "ValueError: no")
    assert server.run("jobs") == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["ID", "NAME", "STATE"]
    assert [row.split()[:3] for row in rows] == [
        [second.job_id, "second", "RUNNING"],
        [first.job_id, "first", "FAILED"],
    ]
    assert server.run("jobs", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(one["job_id"], one["state"]) for one in listed] == [
        (second.job_id, "RUNNING"),
        (first.job_id, "FAILED"),
    ]
    assert listed[1]["error"] == "ValueError: no"
    assert listed[1]["ended"] >= listed[1]["started"] > 0


def test_list_command_with_user_prints_jobs_of_user(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = {name: f"the token of {name}" for name in ("ann", "bob")}
    tables = (
        f'[users.{name}]\ntoken = "{token}"\nrights = ["submit", "read"]\n'
        for name, token in tokens.items()
    )
    (tmp_path / "users.toml").write_text("".join(tables))
    (tmp_path / "token").write_text(tokens["ann"])
    server = FakeServer(tmp_path, read_access_guard(users_file=tmp_path / "users.toml"))
    try:
        jobs = {name: server.submit("words", token) for name, token in tokens.items()}

        def run(command: str, *words: str) -> str:
            assert server.run(command, "--token-file", str(tmp_path / "token"), *words) == 0
            return capsys.readouterr().out

        head, *rows = run("jobs").splitlines()
        assert head.split()[:4] == ["ID", "NAME", "USER", "STATE"]
        assert {(row.split()[0], row.split()[2]) for row in rows} == {
            (job.job_id, name) for name, job in jobs.items()
        }
        listed = json.loads(run("jobs", "--user", "bob", "--json"))
        assert [(one["job_id"], one["user"]) for one in listed] == [(jobs["bob"].job_id, "bob")]
        assert "has no jobs of user 'eve'" in run("jobs", "--user", "eve")
        assert "user       bob" in run("describe", jobs["bob"].job_id)
        words = ("cancel", jobs["bob"].job_id, "--token-file", str(tmp_path / "token"))
        assert server.run(*words) == 1
        error = capsys.readouterr().err
        assert all(part in error for part in ("'ann'", "'cancel'", "users.toml"))
    finally:
        server.stop()


def test_describe_command_finds_job_by_id_part_of_id_and_unique_name(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    job = server.submit("alone")
    server.submit("twin")
    server.submit("twin")
    part = next(
        job.job_id[at : at + 8]
        for at in range(len(job.job_id) - 8)
        if not any(job.job_id[at : at + 8] in one for one in server.ids() if one != job.job_id)
    )
    for name in (job.job_id, part, "alone"):
        assert server.run("describe", name) == 0
        assert job.job_id in capsys.readouterr().out
    assert server.run("cancel", "twin") == 1
    assert "matches 2 jobs" in capsys.readouterr().err
    assert server.run("cancel", server.ids()[-1]) == 0
    assert server.run("describe", "twin") == 0
    assert server.ids()[-2] in capsys.readouterr().out
    assert server.run("cancel", "aloen") == 1
    error = capsys.readouterr().err
    assert "did you mean alone?" in error
    assert error.count("\n") == 1


def test_describe_command_prints_stages_waits_and_failures(
    server: FakeServer, stuck: FakeJob, capsys: pytest.CaptureFixture[str]
) -> None:
    assert server.run("describe", "stuck") == 0
    shown = capsys.readouterr().out
    stages = [line.split() for line in shown.splitlines() if line.startswith(("Make", "Double"))]
    assert stages[0][:3] == ["Make", "finished", "5"]
    assert stages[1][:3] == ["Double", "2", "1"]
    assert "no progress for 12 s" in shown
    assert "ValueError: no" in shown
    assert "\x1b" not in shown
    assert server.run("describe", "stuck", "--json") == 0
    described = json.loads(capsys.readouterr().out)
    assert [one["finished"] for one in described["stages"]] == [True, False]
    assert described["failed_bundles"][0]["attempts"] == 2
    stuck.reporter.report_state(JobState.CANCELLED)
    assert server.run("describe", "stuck") == 0
    assert "CANCELLED" in capsys.readouterr().out


def test_cancel_command_ends_job(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    job = server.submit("one")
    assert server.run("cancel", "one", "--wait", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "job_id": job.job_id,
        "job_name": "one",
        "state": "CANCELLED",
    }
    assert server.run("cancel", "one") == 0
    assert server.run("drain", "one") == 1
    assert "has already ended: CANCELLED" in capsys.readouterr().err


def test_drain_command_returns_while_job_drains(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    job = server.submit("one")
    assert server.run("drain", "one") == 0
    assert capsys.readouterr().out == f"job {job.job_id} is DRAINING\n"
    job.reporter.report_state(JobState.FAILED, "no")
    assert server.run("drain", "one") == 1


@pytest.mark.timeout(120)
def test_job_command_writes_no_warnings_of_imports(server: FakeServer) -> None:
    command = [sys.executable, "-m", "beam_runner_server.cli", "jobs"]
    done = subprocess.run(
        [*command, "--job-endpoint", server.address], capture_output=True, text=True, timeout=100
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "has no jobs" in done.stdout
