"""Tests of the API for scripts: JSON, Prometheus, and health probes."""

from __future__ import annotations

import platform
import re
import time

import pytest
from beam_runner_model.jobs import JobMetrics, JobState, MetricCell
from beam_runner_model.times import MAX_TIMESTAMP
from starlette.testclient import TestClient

from beam_runner_web.asgi import api

from ..conftest import Observed, Server, add_step, count, stage, user, varint, word_count

SAMPLE = re.compile(
    r'[a-z_]+\{[a-z_]+="(?:[^"\\\n]|\\[\\"n])*"(?:,[a-z_]+="(?:[^"\\\n]|\\[\\"n])*")*\} \d+(?:\.\d+)?'
)


@pytest.mark.parametrize("part", ["steps", "stages", "bundles", "errors", "metrics", "logs"])
def test_web_api_returns_parts_of_job_as_json(server: Server, web: TestClient, part: str) -> None:
    server.kind = Observed
    job = server.submit()
    job.given = JobMetrics((count("lines", 5), stage("s", "Count", "open_bundles", 1)))
    found = web.get(f"/api/v1/jobs/{job.id}/{part}")
    assert (found.status_code, found.headers["content-type"]) == (200, "application/json")
    assert isinstance(found.json()[part], list)


def test_web_api_returns_job_with_steps_and_metrics(server: Server, web: TestClient) -> None:
    job = server.submit()
    job.given = JobMetrics(
        (count("lines", 5), user("Count", "seen", 3)), (user("Count", "seen", 2),)
    )
    (listed,) = web.get("/api/v1/jobs").json()["jobs"]
    assert (listed["id"], listed["name"], listed["state"]) == (job.id, "words", "RUNNING")
    steps = {one["name"]: one for one in web.get(f"/api/v1/jobs/{job.id}/steps").json()["steps"]}
    assert steps["Read"]["elements_out"] == steps["Count"]["elements_in"] == 5
    (metric,) = web.get(f"/api/v1/jobs/{job.id}/metrics").json()["metrics"]
    assert (metric["name"], metric["attempted"], metric["committed"]) == ("seen", 3, 2)


def test_invalid_api_request_is_refused_as_json(server: Server, web: TestClient) -> None:
    job = server.submit()
    for path, status in (("none", 404), (f"{job.id}/nothing", 404)):
        found = web.get(f"/api/v1/jobs/{path}")
        assert (found.status_code, list(found.json())) == (status, ["error"])
    refused = web.post(f"/api/v1/jobs/{job.id}")
    assert (refused.status_code, list(refused.json())) == (405, ["error"])
    assert "GET" in refused.headers["allow"]


def test_prometheus_endpoint_returns_metrics_of_running_jobs(
    server: Server, web: TestClient
) -> None:
    pipeline = word_count()
    add_step(pipeline, "t9", 'a "b"\n\\c', reads={"in": "lines"}, writes={"out": "odd"})
    pipeline.components.transforms["root"].subtransforms.append("t9")
    job, ended = server.submit(pipeline), server.submit()
    given = (
        count("odd", 7),
        stage("s", "Count", "backlog_bytes", 0),
        stage("s", "Count", "pending_bytes", 9),
        stage("s", "Count", "pending_elements", 88_000),
        stage("s", "Count", "commit_lag", 1_500),
        stage("s", "Count", "input_watermark", MAX_TIMESTAMP),
        stage("s", "Count", "output_watermark", 1_700_000_000_500),
        stage("s", "Count", "dropped_values", 4),
        stage("s", "Count", "quarantined", 2),
    )
    job.given = ended.given = JobMetrics(given)
    ended.reporter.report_state(JobState.DONE)
    lines = web.get("/metrics").text.splitlines()
    told = [line for line in lines if not line.startswith("#")]
    of_jobs = [line for line in told if not line.startswith(("process_", "beam_build_info"))]
    assert all(map(SAMPLE.fullmatch, of_jobs))
    assert 'beam_jobs{state="running"} 1' in told and 'beam_jobs{state="done"} 1' in told
    assert f'beam_step_elements_total{{job_id="{job.id}",step="a \\"b\\"\\n\\\\c"}} 7' in told
    assert f'beam_stage_backlog_bytes{{job_id="{job.id}",stage="s"}} 9' in told
    assert f'beam_stage_backlog_elements{{job_id="{job.id}",stage="s"}} 88000' in told
    assert f'beam_stage_commit_lag_seconds{{job_id="{job.id}",stage="s"}} 1.5' in told
    marks = [line for line in told if "_watermark_" in line]
    labels = f'{{job_id="{job.id}",stage="s"}}'
    assert marks == [f"beam_stage_output_watermark_timestamp_seconds{labels} 1700000000.5"]
    assert not any("_ms" in line or 'step="Read"' in line for line in lines)
    assert f'beam_stage_dropped_values_total{{job_id="{job.id}",stage="s"}} 4' in told
    assert f'beam_stage_quarantined_elements_total{{job_id="{job.id}",stage="s"}} 2' in told
    # The final totals of a job that has just ended stay; nothing waits for it anymore.
    assert f'beam_stage_dropped_values_total{{job_id="{ended.id}",stage="s"}} 4' in told
    assert f'beam_job_info{{job_id="{ended.id}",name="words",state="done"}} 1' in told
    assert not any(ended.id in line and "backlog" in line for line in told)
    kinds = dict(line.split()[2:] for line in lines if line.startswith("# TYPE"))
    assert {name for name in kinds if name.endswith("_total")} == {
        name for name, kind in kinds.items() if kind == "counter"
    }


def test_prometheus_endpoint_omits_job_that_ended_long_ago(
    server: Server, web: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = server.submit()
    job.reporter.report_state(JobState.DONE)
    assert f'beam_job_info{{job_id="{job.id}"' in web.get("/metrics").text
    monkeypatch.setattr(api, "_ENDED_SECONDS", 0.0)
    assert job.id not in web.get("/metrics").text


def test_prometheus_endpoint_returns_metrics_of_user_code(server: Server, web: TestClient) -> None:
    job = server.submit()
    labels = {"PTRANSFORM": "Count", "NAMESPACE": "shop", "NAME": "sizes"}
    sizes = MetricCell(
        "beam:metric:user:distribution_int64:v1",
        "beam:metrics:distribution_int64:v1",
        b"".join(map(varint, (3, 12, 2, 7))),
        labels,
    )
    job.given = JobMetrics((user("Count", "seen", 3), sizes))
    told = web.get("/metrics").text.splitlines()
    shown = f'{{job_id="{job.id}",step="Count",namespace="shop",name="sizes"}}'
    for line in ("_sum{} 12", "_count{} 3", "_min{} 2", "_max{} 7"):
        assert f"beam_user_distribution{line.format(shown)}" in told
    (seen,) = [line for line in told if line.startswith("beam_user_value{")]
    assert 'name="seen"' in seen and seen.endswith(" 3")


def test_prometheus_endpoint_returns_metrics_of_its_process(web: TestClient) -> None:
    told = dict(
        line.rsplit(" ", 1) for line in web.get("/metrics").text.splitlines() if line[0] != "#"
    )
    assert float(told["process_cpu_seconds_total"]) > 0
    assert float(told["process_resident_memory_bytes"]) > 1_000_000
    assert 0 < float(told["process_start_time_seconds"]) <= time.time()
    (build,) = [name for name in told if name.startswith("beam_build_info{")]
    assert f'python="{platform.python_version()}"' in build


def test_prometheus_metrics_without_job_server_are_unavailable(
    server: Server, web: TestClient
) -> None:
    server.server.stop(grace=0)
    assert web.get("/metrics").status_code == 503
