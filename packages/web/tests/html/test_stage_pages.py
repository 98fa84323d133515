"""Tests of stages and large graphs on the pages of a job."""

from __future__ import annotations

import re
from functools import reduce

from beam_runner_model.bundle_costs import (
    BUNDLE_COSTS_TYPE,
    add_bundle_costs,
    encode_bundle_costs,
)
from beam_runner_model.jobs import JobMetrics, JobState, MetricCell
from starlette.testclient import TestClient

from ..conftest import Server, add_step, stage, wall, word_count


def test_pages_count_waiting_elements_of_open_bundles(server: Server, web: TestClient) -> None:
    job = server.submit()
    job.given = JobMetrics(
        (
            stage("s", "Count", "backlog_bytes", 0),
            stage("s", "Count", "pending_bytes", 1_200_000),
            stage("s", "Count", "pending_elements", 88_000),
            stage("s", "Count", "open_bundles", 88),
        )
    )
    assert "1.2 MB in 88.0 k elements" in web.get(f"/jobs/{job.id}/stages").text
    page = web.get(f"/jobs/{job.id}?step=t3").text
    assert "<dt>Waiting</dt><dd>1.2 MB in 88.0 k elements</dd>" in page
    assert "88.0 k waiting</text>" in page


def test_overview_page_of_pipeline_with_many_flat_steps_draws_part(
    server: Server, web: TestClient
) -> None:
    pipeline = word_count()
    for number in range(300):
        ends = {"in": f"p{number}"}, {"out": f"p{number + 1}"}
        add_step(pipeline, f"s{number}", f"Step{number:03}", *ends)
        pipeline.components.transforms["root"].subtransforms.append(f"s{number}")
    job = server.submit(pipeline)
    job.given = JobMetrics((wall("Step200", 50),))
    page = web.get(f"/jobs/{job.id}").text
    assert "This is the part around Step200;" in page
    assert 'id="node-s200"' in page and 'id="node-s0"' not in page
    chosen = web.get(f"/jobs/{job.id}?step=s7").text
    assert "This is the part around Step007;" in chosen and 'id="node-s0"' in chosen
    assert "The part of the graph around Step200" in web.get(f"/jobs/{job.id}/report.html").text


def test_stages_page_has_unique_ids_for_stages_of_one_step(server: Server, web: TestClient) -> None:
    job = server.submit()
    names = ("Read/Lines/Split", "Read/Lines/Process")
    job.given = JobMetrics(
        tuple(stage(f"s{n}", name, "open_bundles", 1) for n, name in enumerate(names))
    )
    page = web.get(f"/jobs/{job.id}/stages").text
    ids = re.findall(r' id="([^"]+)"', page)
    assert {"stage-s0", "stage-s1"} < set(ids)
    assert len(ids) == len(set(ids))


def costs_of(key: str, *payloads: bytes) -> MetricCell:
    labels = {"STAGE": key, "PTRANSFORM": "Count"}
    payload = reduce(add_bundle_costs, payloads)
    return MetricCell("beam_spark:stage:bundle_costs:v1", BUNDLE_COSTS_TYPE, payload, labels)


def test_ended_job_keeps_distribution_of_bundle_durations(server: Server, web: TestClient) -> None:
    job = server.submit()
    bundles = [0.05] * 90 + [2.0] * 9 + [75.0]
    job.given = JobMetrics((costs_of("s", *map(encode_bundle_costs, bundles)),))
    job.reporter.report_state(JobState.DONE)
    (found,) = web.get(f"/api/v1/jobs/{job.id}/stages").json()["stages"]
    told = found["bundle_durations"]
    assert (told["count"], told["min"], told["max"]) == (100, 0.05, 75.0)
    assert (round(told["median"], 2), round(told["p95"])) == (0.05, 2)
    page = web.get(f"/jobs/{job.id}/stages").text
    assert "<span>Duration of a bundle: median</span>" in page
    assert "95 % up to 2.0 s, longest 1 min 15 s</small>" in page


def test_pages_show_costs_of_job_and_its_stages(server: Server, web: TestClient) -> None:
    job = server.submit()
    costs = encode_bundle_costs(4_000.0, 3_000.0, 320_000_000)
    job.given = JobMetrics((costs_of("s", costs), costs_of("t", encode_bundle_costs(500.0))))
    metrics = web.get("/metrics").text
    assert f'beam_stage_cpu_seconds_total{{job_id="{job.id}",stage="s"}} 3000.0' in metrics
    assert f'beam_stage_slot_seconds_total{{job_id="{job.id}",stage="t"}} 500.0' in metrics
    assert f'beam_stage_peak_memory_bytes{{job_id="{job.id}",stage="s"}} 320000000' in metrics
    assert f'beam_stage_cpu_seconds_total{{job_id="{job.id}",stage="t"}}' not in metrics
    job.reporter.report_state(JobState.DONE)
    assert web.get(f"/api/v1/jobs/{job.id}").json()["costs"] == {
        "slot_seconds": 4_500.0,
        "cpu_seconds": 3_000.0,
        "peak_memory_bytes": 320_000_000,
        "unmeasured_stages": 1,
    }
    page = web.get(f"/jobs/{job.id}").text
    assert (
        "cost <b>1.25 core-hours</b> · CPU time 50 min without 1 stage in SDK harnesses"
        " · peak memory 320 MB" in page
    )
    assert "CPU time 50 min</small>" in web.get(f"/jobs/{job.id}/stages").text
