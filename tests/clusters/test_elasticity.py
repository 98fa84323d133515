"""Tests that a job with Spark's dynamic allocation gets executors while it has work for them, and releases them."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import pytest
from beam_jobs import TakeTime
from beam_runner_model.jobs import JobState
from cluster_site import Site
from job_server import job_server
from jobs import Pipelines
from waiting import wait_until

_COUNT = 200
_GIVEN_BACK_SECONDS = 60.0
_ALLOCATION = {
    "enabled": "true",
    "shuffleTracking.enabled": "true",
    "minExecutors": "1",
    "initialExecutors": "1",
    "maxExecutors": "2",
    "schedulerBacklogTimeout": "1s",
    "executorIdleTimeout": "2s",
}


@pytest.mark.timeout(600, func_only=True)
@pytest.mark.parametrize("bulk", ["never", "always"], ids=["lanes", "sections"])
def test_executors_are_added_for_work_and_removed_when_idle(
    site: Site, tmp_path: Path, bulk: str
) -> None:
    conf = [
        f"--spark-conf=spark.dynamicAllocation.{key}={each}" for key, each in _ALLOCATION.items()
    ]
    flags = (*site.flags(f"elastic-{bulk}"), *conf)
    with job_server(tmp_path, *flags, environment=site.environment) as server:
        _wait_for_one(site)
        pipelines = Pipelines(server.address, "embedded", [f"--beam_spark_bulk={bulk}"])
        pipeline = pipelines.new()
        made = pipeline | beam.Create(range(_COUNT)) | beam.Reshuffle()
        _ = made | beam.ParDo(TakeTime(0.1))
        job = pipelines.job(pipeline)
        assert job.wait(300) is JobState.DONE, [m.text for m in job.messages()][-3:]
        counts = [job.counter(machine.name) for machine in site.spark.workers]
        print(f"ELASTIC {bulk} {counts}", flush=True)
        assert sum(counts) == _COUNT
        assert len([count for count in counts if count]) == 2
        _wait_for_one(site)


def _wait_for_one(site: Site) -> None:
    wait_until(
        lambda: len(site.spark.at_work()) == 1,
        _GIVEN_BACK_SECONDS,
        lambda: f"one executor is left: {site.spark.at_work()}",
    )
