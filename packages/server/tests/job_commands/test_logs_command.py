"""Tests that the command `logs` prints the log of a job, once or until the job ends."""

from __future__ import annotations

import json
import threading
import time

import pytest
from beam_runner_model.jobs import Importance, JobState, MessageLine

from .conftest import FakeJob, FakeServer


@pytest.fixture
def job(server: FakeServer) -> FakeJob:
    job = server.submit("one")
    lines = [
        MessageLine(Importance.BASIC, "hello \x1b[1m", "Double"),
        MessageLine(Importance.DETAILED, "detail", "Make"),
        MessageLine(Importance.WARNING, "careful"),
    ]
    job.reporter.report_messages(lines)
    return job


def texts(output: str) -> list[tuple[str, str, str]]:
    return [
        (one["severity"], one["step"], one["text"]) for one in map(json.loads, output.splitlines())
    ]


def test_logs_command_prints_severity_and_step(
    server: FakeServer, job: FakeJob, capsys: pytest.CaptureFixture[str]
) -> None:
    assert server.run("logs", "one") == 0
    first, _, last = capsys.readouterr().out.splitlines()
    assert first.split(maxsplit=1)[1] == "BASIC    [Double] hello "
    assert last.split(maxsplit=1)[1] == "WARNING  careful"


@pytest.mark.parametrize(
    ("flags", "selected"),
    [
        ((), ["hello \x1b[1m", "detail", "careful"]),
        (("--tail=1",), ["careful"]),
        (("--severity=warning",), ["careful"]),
        (("--step=Double",), ["hello \x1b[1m"]),
        (("--step=Mak",), []),
    ],
)
def test_logs_command_prints_selected_lines(
    flags: tuple[str, ...],
    selected: list[str],
    server: FakeServer,
    job: FakeJob,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert server.run("logs", "one", "--json", *flags) == 0
    assert [text for _, _, text in texts(capsys.readouterr().out)] == selected
    job.reporter.report_state(JobState.DONE)
    assert server.run("logs", "one", "--json", "--follow", *flags) == 0
    assert [text for _, _, text in texts(capsys.readouterr().out)] == selected


def test_logs_command_prints_long_log_completely(
    server: FakeServer, job: FakeJob, capsys: pytest.CaptureFixture[str]
) -> None:
    job.reporter.report_messages(MessageLine(Importance.BASIC, str(at)) for at in range(2_500))
    assert server.run("logs", "one", "--json") == 0
    found = [text for _, _, text in texts(capsys.readouterr().out)]
    assert found[3:] == [str(at) for at in range(2_500)]
    assert server.run("logs", "one", "--json", "--tail=1200") == 0
    assert [text for _, _, text in texts(capsys.readouterr().out)] == found[-1200:]


def test_logs_command_that_follows_job_ends_with_job(
    server: FakeServer, job: FakeJob, capsys: pytest.CaptureFixture[str]
) -> None:
    found: list[int] = []
    following = threading.Thread(
        target=lambda: found.append(server.run("logs", "one", "--follow", "--tail=1", "--json"))
    )
    following.start()
    time.sleep(1)
    job.reporter.report_message(Importance.BASIC, "later", "Double")
    time.sleep(0.5)
    assert following.is_alive()
    job.reporter.report_state(JobState.DONE)
    following.join(60)
    assert found == [0]
    assert texts(capsys.readouterr().out) == [
        ("WARNING", "", "careful"),
        ("BASIC", "Double", "later"),
    ]
