"""The job server as a whole: the Job API, Spark, and the executor that joins them."""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
from pathlib import Path

from beam_runner_jobservices import JobHandle, JobReporter, JobServer, JobSpec

from beam_spark_executor.driver.executor import SparkJobExecutor
from beam_spark_executor.flags import ServerSettings
from beam_spark_executor.spark.pool import WorkerPools, warm_up
from beam_spark_executor.spark.session import RunningSpark
from beam_spark_executor.spark.settings import is_on_this_machine

JOBS_LIMIT_SECONDS = 10.0
"""How long jobs have to end when the server stops."""

log = logging.getLogger(__name__)


class Server:
    """A job server on Spark, in this process.

        server = Server(ServerSettings(job_port=0))
        address = server.start()
        ...
        server.stop()

    Making one takes the port and costs next to nothing else; `start` starts Spark.

    Raises:
        beam_runner_jobservices.AddressError: the port is taken, or the host is not this machine's.
        OSError: the folder for artifacts cannot be made or written.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="beam-spark-jobserver-"))
        self._stopping = threading.Lock()
        self._executor: SparkJobExecutor | None = None
        self.spark = RunningSpark(settings.spark)
        try:
            self._job_server = JobServer(
                self._start_job,
                artifacts_dir=settings.artifacts_dir or self._folder / "artifacts",
                host=settings.job_host,
                port=settings.job_port,
            )
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self.address = self._job_server.address
        """``host:port`` for clients."""

    def start(self) -> str:
        """Starts Spark, warms it up, then serves; returns the address for clients.

        Takes about ten seconds. To be called once; if it raises, `stop` cleans up.

        Raises:
            SparkUnavailable: Spark does not start; says why in one sentence.
            Exception: `kill` was called meanwhile.
        """
        self.spark.start()
        pools = WorkerPools(self.spark.session)
        warm_up(self.spark.session, pools)
        self._executor = SparkJobExecutor(
            self.spark.session, pools, self._folder / "jobs", self._channel_host(self.spark)
        )
        return self._job_server.start()

    def stop(self) -> None:
        """Cancels what runs, stops serving, stops Spark and removes all files; again does nothing.

        Takes about two seconds where no job runs. May be called from any thread.
        """
        with self._stopping:
            self._job_server.stop(grace=JOBS_LIMIT_SECONDS)
            if self._executor is not None:
                self._executor.close()
                self._executor = None
            self.spark.stop()
            shutil.rmtree(self._folder, ignore_errors=True)

    def kill(self) -> None:
        """Ends Spark at once, whatever it does, also while it starts, and removes all files."""
        self.spark.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start_job(self, job: JobSpec, reporter: JobReporter) -> JobHandle:
        if self._executor is None:
            raise RuntimeError("the server is not running")
        return self._executor(job, reporter)

    @staticmethod
    def _channel_host(spark: RunningSpark) -> str:
        if is_on_this_machine(spark.master):
            return "127.0.0.1"
        return str(spark.session.conf.get("spark.driver.host"))
