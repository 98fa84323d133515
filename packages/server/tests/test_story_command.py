"""Tests that the command `story` prints the story of a bundle, or the reason for its failure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import pytest
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.server import JobServer
from beam_runner_model.jobs import JobMetrics, JobSpec
from beam_runner_model.stories import BundleStory, StoryStatus, StoryStep

from beam_runner_server import cli
from beam_runner_server.plain import PlainProgram

STORY = BundleStory(
    7, StoryStatus.COMMITTED, "s", ("Count",), None, (StoryStep("committed", 9, 1, 5, 0, "h", 3),)
)


class Handle:
    def cancel(self) -> None:
        """Does nothing."""

    def drain(self) -> None:
        """Does nothing."""

    def metrics(self) -> JobMetrics:
        return JobMetrics()


def start(job: JobSpec, reporter: object) -> Handle:
    return Handle()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[JobServer]:
    def tell(job_id: str, bundle: int) -> BundleStory:
        return STORY if bundle == 7 else BundleStory(bundle, StoryStatus.UNKNOWN, next_bundle=8)

    server = JobServer(start, artifacts_dir=tmp_path / "a", port=0, tell_story=tell)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def job_id(server: JobServer) -> Iterator[str]:
    with JobClient(server.address) as client:
        pipeline = beam.Pipeline()
        pipeline | beam.Create([1])
        yield client.submit(pipeline.to_runner_api().SerializeToString())


def run(server: JobServer, *arguments: str) -> int:
    return cli.main(["story", "--job-endpoint", server.address, *arguments], PlainProgram())


def test_story_command_prints_story(
    server: JobServer, job_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(server, job_id, "7") == 0
    assert capsys.readouterr().out.splitlines() == [
        "bundle 7 is committed",
        "stage s: Count",
        "[entry 9, at 5 ms] attempt 1 committed on lane 0 by process 3 on h",
    ]
    assert run(server, "--json", job_id, "7") == 0
    assert json.loads(capsys.readouterr().out)["status"] == "committed"


def test_story_command_of_unknown_bundle_or_job_fails_with_reason(
    server: JobServer, job_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(server, job_id, "8") == 1
    assert "the job has no bundle 8: the last one is bundle 7" in capsys.readouterr().out
    assert run(server, "nothing", "7") == 1
    assert "beam-runner-jobserver story: " in capsys.readouterr().err


def test_story_command_without_server_fails_with_reason(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    missing = str(tmp_path / "token")
    program = PlainProgram()
    assert cli.main(["story", "--token-file", missing, "job", "7"], program) == 1
    assert missing in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main(["story", "job", "seven"], program)
    assert "invalid int value: 'seven'" in capsys.readouterr().err
