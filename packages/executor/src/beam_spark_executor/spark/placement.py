"""Placement (the system that runs worker processes) on Spark
(`beam_runner_server.placement_service.PlacementService`).
"""

from __future__ import annotations

import contextlib
import logging
import subprocess

from beam_runner_runtime.bundles.preflight import BundleRequirements
from beam_runner_runtime.channel.endpoints import EndpointFactory, make_job_scope
from beam_runner_runtime.channel.stand_by import StandByOrder
from beam_runner_runtime.processes.forked_process import ForkedProcess
from beam_runner_runtime.versions import SPARK

from beam_spark_executor.spark.cores import ClusterCores
from beam_spark_executor.spark.first_tasks import check_executors, warm_up_cores
from beam_spark_executor.spark.pool import WorkerPools
from beam_spark_executor.spark.session import RunningSpark
from beam_spark_executor.spark.settings import is_on_this_machine, is_single_process
from beam_spark_executor.spark.shutdown import SPARK_LIMITS
from beam_spark_executor.spark.spark_jobs import SparkJobPlacement
from beam_spark_executor.spark.stand_by import StandbyTaskKeeper

log = logging.getLogger(__name__)


class SparkPlacement:
    """A placement on Spark: each lane is a Spark job of one task in a Python worker
    (`PlacementService`).

    If Spark has a free slot, the placement always keeps one standby task, which waits for the next
    job.

    Args:
        spark: Spark before its start; its Java process can already run.
        fork_server: the process from which Spark's Python daemons on this machine are forked; it
            exits with Spark.
    """

    has_tables = True
    loss_message = "Spark's Java process exited unexpectedly; its last lines are in the log"

    def __init__(self, spark: RunningSpark, fork_server: ForkedProcess | None = None) -> None:
        self._spark = spark
        self._fork_server = fork_server
        self._pools: WorkerPools | None = None
        self._stand_bys: StandbyTaskKeeper | None = None
        self._endpoints: EndpointFactory | None = None
        self._cores: ClusterCores | None = None

    @property
    def name(self) -> str:
        return f"Spark {self._spark.version}"

    @property
    def where(self) -> str:
        """Master URL of Spark, which names the machines of the placement."""
        return self._spark.master

    @property
    def is_on_this_machine(self) -> bool:
        return is_on_this_machine(self._spark.master)

    @property
    def host(self) -> str:
        return self._spark.context.getConf().get("spark.driver.host") or ""

    @property
    def binding(self) -> str:
        conf = self._spark.context.getConf()
        return conf.get("spark.driver.bindAddress") or self.host

    @property
    def cores(self) -> int:
        assert self._cores is not None
        return self._cores()

    @property
    def slots(self) -> int | None:
        total = self._spark.slots
        return total if total is None else total - self._needs_standby

    @property
    def _is_cluster(self) -> bool:
        """Whether tasks run in separate executor processes, which Spark starts and stops."""
        return not is_single_process(self._spark.master)

    @property
    def _needs_standby(self) -> bool:
        total = self._spark.slots
        return total is not None and total > self.cores

    @property
    def is_alive(self) -> bool:
        return self._spark.is_alive

    def check_requirements(self) -> None:
        self._spark.check_requirements()

    def start(self) -> None:
        self._spark.start()
        if remark := SPARK.describe_untested_version(self._spark.version):
            log.warning("%s", remark)
        self._pools = WorkerPools(self._spark.context, self._spark.environment)
        self._cores = ClusterCores(self._spark.context, change=self._is_cluster)

    def warm_up(self) -> None:
        """Starts a Python worker on each core of this machine. On a cluster, `check_bundle_requirements` warms Spark up
        instead (see `PlacementService.warm_up`).
        """
        assert self._pools is not None
        if not self._is_cluster:
            warm_up_cores(self._spark.context, self._pools)

    def check_bundle_requirements(self, needs: BundleRequirements) -> frozenset[str]:
        assert self._pools is not None
        if not self._is_cluster:
            return frozenset()
        return check_executors(self._spark.context, self._pools, needs)

    def set_endpoints(self, endpoints: EndpointFactory) -> None:
        assert self._pools is not None
        self._endpoints = endpoints
        self._stand_bys = StandbyTaskKeeper(self._pools, endpoints, wanted=self._needs_standby)
        self._stand_bys.ensure_standby()

    def get_standby_order(self, number: int) -> StandByOrder:
        assert self._stand_bys is not None
        return self._stand_bys.get_standby_order(number)

    def create_job_placement(self, job_id: str, name: str) -> SparkJobPlacement:
        assert self._pools is not None
        assert self._stand_bys is not None
        assert self._endpoints is not None
        endpoint = self._endpoints.make_endpoint(make_job_scope(job_id))
        stand_bys, cores = self._stand_bys, lambda: self.cores
        return SparkJobPlacement(self._spark, self._pools, stand_bys, endpoint, job_id, cores, name)

    def handle_job_end(self) -> None:
        assert self._stand_bys is not None
        self._stand_bys.ensure_standby()

    def end_standby_processes(self) -> None:
        if self._stand_bys is not None:
            self._stand_bys.close()

    def stop(self) -> None:
        self._spark.stop()
        if self._fork_server is not None:
            self._fork_server.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._fork_server.wait(SPARK_LIMITS.fork_server_stop_seconds)

    def kill(self) -> None:
        self._spark.kill()
        if self._fork_server is not None:
            self._fork_server.terminate()
