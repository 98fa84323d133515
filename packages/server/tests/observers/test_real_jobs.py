"""A server process exports the telemetry and the lineage of real jobs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import attrs
import pytest
from apache_beam.metrics import Metrics
from apache_beam.transforms.environments import EmbeddedPythonEnvironment
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from collector import Collector, attributes

from beam_runner_server.observers.trace_ids import derive_span_id, derive_trace_id

pytestmark = pytest.mark.timeout(180)


@attrs.frozen
class Exported:
    """Everything that a server exported about two jobs: a successful one, and one that failed."""

    good: str
    bad: str
    folder: Path
    collector: Collector
    events: list[dict[str, Any]]


def _write_lines(folder: Path) -> bytes:
    def count(line: str) -> str:
        time.sleep(2.0)  # longer than the pause between two looks
        Metrics.counter("here", "lines").inc()
        print("seen", line)
        return line

    (folder / "in.txt").write_text("a\nb\n")
    pipeline = beam.Pipeline()
    _ = (
        pipeline
        | beam.io.ReadFromText(str(folder / "in.txt"))
        | "count" >> beam.Map(count)
        | beam.io.WriteToText(str(folder / "out"), shard_name_template="")
    )
    return _encode(pipeline)


def _fail() -> bytes:
    pipeline = beam.Pipeline()
    _ = pipeline | beam.Create([1]) | "divide" >> beam.Map(lambda n: n // 0)
    return _encode(pipeline)


def _encode(pipeline: beam.Pipeline) -> bytes:
    environment = EmbeddedPythonEnvironment.default()
    return bytes(pipeline.to_runner_api(default_environment=environment).SerializeToString())


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exported]:
    folder = tmp_path_factory.mktemp("observed")
    collector = Collector()
    transport = {"type": "file", "log_file_path": str(folder / "events"), "append": True}
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "beam_runner_server.cli", "--job-port=0", "--serve-http=false"),
            *("--telemetry", f"--port-file={folder / 'port'}"),
        ],
        env={
            **os.environ,
            "BEAM_RUNNER_LINEAGE": "1",
            "OPENLINEAGE__TRANSPORT": json.dumps(transport),
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
        },
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    line = server.stdout.readline()
    assert "its telemetry is exported" in line
    assert "its lineage is emitted" in line
    with JobClient((folder / "port").read_text()) as client:
        good = client.submit_job(_write_lines(folder), job_name="good")
        assert client.wait_until_finish(good, 60) is JobState.DONE
        bad = client.submit_job(_fail(), job_name="bad")
        assert client.wait_until_finish(bad, 60) is JobState.FAILED
    server.send_signal(signal.SIGTERM)
    assert server.wait(60) == 0
    events = [json.loads(line) for line in (folder / "events").read_text().splitlines()]
    yield Exported(good, bad, folder, collector, events)
    collector.close()


def test_telemetry_spans_of_job_form_one_trace(exported: Exported) -> None:
    trace = derive_trace_id(exported.good).to_bytes(16)
    spans = [span for span in exported.collector.spans() if span.trace_id == trace]
    (root,) = (span for span in spans if not span.parent_span_id)
    assert root.name == "job good"
    assert root.span_id == derive_span_id(exported.good).to_bytes(8)
    assert attributes(root.attributes)["beam.job.state"] == "DONE"
    stages = [span for span in spans if span.name.startswith("stage ")]
    assert any("count" in attributes(span.attributes)["beam.steps"] for span in stages)
    assert all(span.parent_span_id == root.span_id for span in stages)
    bundles = [span for span in spans if span.name == "bundle"]
    assert {span.parent_span_id for span in bundles} <= {span.span_id for span in stages}
    longest = max(span.end_time_unix_nano - span.start_time_unix_nano for span in bundles)
    assert longest > 1e9
    for span in (*stages, *bundles):
        assert root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano


def test_telemetry_span_of_failed_job_has_its_error(exported: Exported) -> None:
    (root,) = (span for span in exported.collector.spans() if span.name == "job bad")
    assert root.status.code == root.status.STATUS_CODE_ERROR
    assert "ZeroDivisionError" in root.status.message


def test_telemetry_resource_has_attributes_of_environment_variable(exported: Exported) -> None:
    for resource in exported.collector.resources():
        assert resource["service.name"] == "beam-jobserver"
        assert resource["deployment.environment.name"] == "test"


def test_telemetry_metrics_of_short_jobs_are_exported(exported: Exported) -> None:
    collector = exported.collector
    lines = {
        value
        for found, value in collector.points("beam.user.metric")
        if (found["beam.job.id"], found["beam.metric.name"]) == (exported.good, "lines")
    }
    assert lines == {2}
    ended = {found["beam.job.state"]: value for found, value in collector.points("beam.jobs")}
    assert ended == {"DONE": 1, "FAILED": 1}
    assert any(value > 0 for _, value in collector.points("beam.stage.committed_bundles"))
    assert any(value == 2 for _, value in collector.points("beam.step.elements"))


def test_telemetry_logs_of_job_belong_to_its_trace(exported: Exported) -> None:
    logs = exported.collector.logs()
    (seen,) = (one for one in logs if one.body.string_value == "print: seen a")
    assert seen.trace_id == derive_trace_id(exported.good).to_bytes(16)
    assert attributes(seen.attributes)["beam.step"] == "count"
    errors = [one for one in logs if one.severity_text == "ERROR"]
    assert any("ZeroDivisionError" in one.body.string_value for one in errors)


def test_lineage_event_has_inputs_and_outputs(exported: Exported) -> None:
    events = [event for event in exported.events if event["job"]["name"] == "good"]
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"]
    assert len({event["run"]["runId"] for event in events}) == 1
    last = events[-1]
    assert _names(last["inputs"]) == {("file", str(exported.folder / "in.txt"))}
    assert _names(last["outputs"]) == {("file", str(exported.folder / "out"))}
    assert last["job"]["facets"]["jobType"]["processingType"] == "BATCH"


def test_lineage_event_of_failed_job_has_its_error(exported: Exported) -> None:
    events = [event for event in exported.events if event["job"]["name"] == "bad"]
    assert [event["eventType"] for event in events] == ["START", "FAIL"]
    assert "ZeroDivisionError" in events[-1]["run"]["facets"]["errorMessage"]["message"]


def _names(datasets: list[dict[str, str]]) -> set[tuple[str, str]]:
    return {(one["namespace"], one["name"]) for one in datasets}
