"""A job adapts to the executors' machines: unusable environments are refused by name at once, new
machines are used, and lost machines don't block.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.metrics import Metrics
from beam_runner_model.jobs import JobState
from cluster_site import Site
from jobs import Pipelines
from lives import Lives
from machines import Machine
from waiting import wait_until

_SECONDS = 0.2
"""Of an element."""
_COUNT = 1500
_SOON = 60.0
_FILE = "began"


def test_loopback_job_is_refused_at_submission_by_a_remote_cluster(running: Lives) -> None:
    pipelines = Pipelines(running.address, "LOOPBACK", ["--environment_type=LOOPBACK"])
    pipeline = pipelines.new()
    _ = pipeline | beam.Create([1]) | beam.Map(print)
    began = time.monotonic()
    with pytest.raises(Exception, match=r"LOOPBACK runs user code in the program .*worker-\d"):
        pipelines.job(pipeline)
    assert time.monotonic() - began < _SOON


class Slow(beam.DoFn):
    """Slow DoFn that creates a file on the machine of its start."""

    def start_bundle(self) -> None:
        Path(os.environ["HOME"], _FILE).touch()

    def process(self, number: int) -> Iterable[int]:
        time.sleep(_SECONDS)
        Metrics.counter("slow", "numbers").inc()
        Metrics.counter("slow", "sum").inc(number)
        return ()


def has_begun(machine: Machine) -> bool:
    """Returns True if a bundle has started on the machine."""
    return (machine.disk / _FILE).exists()


@pytest.mark.timeout(600, func_only=True)
def test_running_job_uses_an_added_machine_and_survives_a_removed_machine(
    embedded: Pipelines, site: Site
) -> None:
    first = list(site.spark.workers)
    pipeline = embedded.new()
    _ = pipeline | beam.Create(range(_COUNT)) | beam.Reshuffle() | beam.ParDo(Slow())
    job = embedded.job(pipeline)
    wait_until(lambda: any(map(has_begun, first)), 120, "the job begins")
    (new,) = site.spark.add(1)
    wait_until(lambda: site.spark.has_executor(new), 120, "the new machine has an executor")
    began = time.monotonic()
    wait_until(lambda: has_begun(new), _SOON, f"{new.name} has begun a bundle")
    print(f"{new.name} has begun after {time.monotonic() - began:.1f} s", flush=True)
    assert not job.state().is_terminal
    first[0].stop()
    try:
        assert job.wait(400) is JobState.DONE, [m.text for m in job.messages()][-3:]
        assert (job.counter("numbers"), job.counter("sum")) == (_COUNT, sum(range(_COUNT)))
    finally:
        site.spark.boot(first[0])
        site.spark.wait_for(first)
