"""Tests of the commands that describe a finished job."""

from __future__ import annotations

import json

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics
from beam_runner_model.jobs import JobState
from beam_runner_server import cli
from beam_runner_server.plain import PlainProgram
from jobs import Pipelines

SECONDS = 120.0


def test_description_of_finished_job_contains_its_metrics(
    embedded: Pipelines, capsys: pytest.CaptureFixture[str]
) -> None:
    def double(number: int) -> int:
        Metrics.counter("mine", "doubled").inc()
        return 2 * number

    pipeline = embedded.new()
    _ = pipeline | "Make" >> beam.Create([1, 2, 3]) | "Double" >> beam.Map(double)
    job = embedded.job(pipeline)
    assert job.wait(SECONDS) is JobState.DONE
    words = ["--job-endpoint", embedded.address, job.job_id, "--json"]
    assert cli.main(["describe", *words], PlainProgram()) == 0
    described = json.loads(capsys.readouterr().out)
    assert described["state"] == "DONE"
    assert described["stages"]
    assert all(one["finished"] for one in described["stages"])
    steps = {one["name"]: one for one in described["steps"]}
    assert steps["Double"]["elements_in"] == steps["Double"]["elements_out"] == 3
    counters = {
        (one["step"], one["namespace"], one["name"]): one["committed"]
        for one in described["counters"]
    }
    assert counters["Double", "mine", "doubled"] == 3
