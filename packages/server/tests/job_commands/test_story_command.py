"""Tests that the command `story` prints the story of a bundle, or the reason for its failure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from beam_runner_server import cli
from beam_runner_server.plain import PlainProgram

from .conftest import FakeServer


def test_story_command_prints_history_of_bundle(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    job = server.submit("one")
    assert server.run("story", job.job_id, "7") == 0
    assert capsys.readouterr().out.splitlines() == [
        "bundle 7 is committed",
        "stage s: Count",
        "[entry 9, at 5 ms] attempt 1 committed on lane 0 by process 3 on h",
    ]
    assert server.run("story", "--json", "one", "7") == 0
    assert json.loads(capsys.readouterr().out)["status"] == "committed"


def test_story_command_of_unknown_bundle_or_job_fails_with_reason(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.submit("one")
    assert server.run("story", "one", "8") == 1
    assert "the job has no bundle 8: the last one is bundle 7" in capsys.readouterr().out
    assert server.run("story", "nothing", "7") == 1
    assert capsys.readouterr().err.startswith("beam-runner-jobserver story: ")


def test_story_command_with_wrong_arguments_fails_with_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    missing = str(tmp_path / "token")
    program = PlainProgram()
    assert cli.main(["story", "--token-file", missing, "job", "7"], program) == 1
    assert missing in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        cli.main(["story", "job", "seven"], program)
    error = capsys.readouterr().err
    assert "invalid int value: 'seven'" in error
    assert error.count("\n") == 1
