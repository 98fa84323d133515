"""Tests of the history of a bundle while its job runs, and after the job has ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from beam_runner_model.stories import BundleHistory, BundleStatus, HistoryEventKind
from jobs import Pipelines
from waiting import wait_until

SECONDS = 120.0


class FailThenWait(beam.DoFn):
    """DoFn that fails in its first attempt, and waits for a file in its second attempt."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def process(self, element: int) -> Iterator[int]:
        failed = self._folder / "failed"
        if not failed.exists():
            failed.touch()
            raise ValueError("not yet")
        while not (self._folder / "go").exists():
            time.sleep(0.05)
        yield element


def test_bundle_history_contains_the_failure_the_retry_and_the_end(
    embedded: Pipelines, tmp_path: Path
) -> None:
    pipeline = embedded.new("--beam_spark_task_attempts=3")
    _ = pipeline | beam.Create([1]) | "fails once" >> beam.ParDo(FailThenWait(tmp_path))
    job = embedded.job(pipeline)
    job.wait_for(JobState.RUNNING, SECONDS)
    with JobClient(embedded.address) as client:

        def told() -> BundleHistory | None:
            running = client.get_execution(job.job_id).bundles
            retried = [one.bundle for one in running if one.attempt > 1]
            return client.get_bundle_history(job.job_id, retried[0]) if retried else None

        wait_until(told, SECONDS, "the second attempt runs")
        story = told()
        assert story is not None
        kinds = [one.kind for one in story.happened]
        assert kinds[-2:] == [HistoryEventKind.FAILED, HistoryEventKind.RETRIED]
        failed = story.happened[-2]
        assert failed.failure is not None
        assert failed.failure.error.startswith("ValueError: not yet")
        assert failed.failure.step.endswith("fails once")
        assert failed.pid > 0 and failed.lane is not None
        assert story.status is BundleStatus.OPEN
        assert story.happened[-1].reads
        assert client.get_bundle_history(job.job_id, 10**6).status is BundleStatus.UNKNOWN
        (tmp_path / "go").touch()
        assert job.wait(SECONDS) is JobState.DONE
        wait_until(
            lambda: (
                client.get_bundle_history(job.job_id, story.bundle).status
                is BundleStatus.NO_JOURNAL
            ),
            SECONDS,
            "the journal is removed",
        )
