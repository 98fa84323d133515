"""The Spark executor as the Job API sees it: takes jobs on, and ends them all when it closes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

from beam_runner_jobservices.errors import JobRejected
from beam_runner_jobservices.ports import JobHandle, JobReporter
from beam_runner_jobservices.records import JobSpec
from pyspark.sql import SparkSession

from beam_spark_executor.channel.server import ChannelServer
from beam_spark_executor.driver.job import RunningJob
from beam_spark_executor.driver.spark_jobs import SparkJobs
from beam_spark_executor.spark.pool import WorkerPools
from beam_spark_executor.translation.errors import UnsupportedPipeline
from beam_spark_executor.translation.translate import translate

_PIECE = 1 << 20


class SparkJobExecutor:
    """Runs jobs on one Spark session (``beam_runner_jobservices.ports.JobExecutor``).

    Args:
        session: the server's Spark session.
        pools: its pools of Python workers.
        work_dir: a folder that the driver and all executors can read and write; each job has a
            folder of its own in it, removed when the job ends.
        channel_host: the address at which executors reach this process.
    """

    def __init__(
        self,
        session: SparkSession,
        pools: WorkerPools,
        work_dir: Path,
        channel_host: str = "127.0.0.1",
    ) -> None:
        self._session = session
        self._pools = pools
        self._work_dir = work_dir
        self._lock = threading.Lock()
        self._jobs: dict[str, RunningJob] = {}
        self._channel = ChannelServer(channel_host, self._jobs.get)
        self._channel.start()

    def __call__(self, job: JobSpec, reporter: JobReporter) -> JobHandle:
        """Plans the job and starts it.

        Raises:
            JobRejected: the pipeline uses something that is not supported.
        """
        try:
            plan = translate(job)
        except UnsupportedPipeline as error:
            raise JobRejected(str(error)) from error
        paths = {a.sha256: a.path for artifacts in job.artifacts.values() for a in artifacts}

        def artifact(sha256: str) -> Iterator[bytes]:
            return _read(Path(paths[sha256]))

        running = RunningJob(
            plan,
            reporter,
            SparkJobs(self._session, self._pools, job.job_id),
            self._channel.endpoint,
            self._work_dir / job.job_id,
            artifact,
            self._forget,
        )
        with self._lock:
            self._jobs[job.job_id] = running
        running.start()
        return running

    def close(self, seconds: float = 10.0) -> None:
        """Cancels all jobs, waits for their ends within the limit, and closes the channel."""
        with self._lock:
            jobs = list(self._jobs.values())
        for job in jobs:
            job.cancel()
        for job in jobs:
            job.join(seconds)
        self._channel.stop()

    def _forget(self, job: RunningJob) -> None:
        with self._lock:
            self._jobs.pop(job.job_id, None)


def _read(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            yield piece
