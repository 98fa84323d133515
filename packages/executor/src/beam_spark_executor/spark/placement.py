"""Spark as what worker processes run on (`beam_spark_executor.server.ports.PlacementService`)."""

from __future__ import annotations

import contextlib
import logging
import subprocess

from beam_spark_executor.bundles.needs import Needs
from beam_spark_executor.channel.endpoints import Endpoints, to_job
from beam_spark_executor.channel.stand_by import StandByOrder
from beam_spark_executor.processes.zygote import Zygote
from beam_spark_executor.spark.cores import ClusterCores
from beam_spark_executor.spark.first_tasks import check_executors, warm_up
from beam_spark_executor.spark.pool import WorkerPools
from beam_spark_executor.spark.session import RunningSpark
from beam_spark_executor.spark.settings import SparkSettings, is_on_this_machine, is_one_process
from beam_spark_executor.spark.spark_jobs import SparkJobs
from beam_spark_executor.spark.stand_by import StandBys
from beam_spark_executor.versions import SPARK

_ZYGOTE_SECONDS = 10.0
"""A little longer than its reaper leaves to others."""

log = logging.getLogger(__name__)


class SparkPlacement:
    """Lanes are Spark jobs of one task each, served by Python workers that Spark has forked (`PlacementService`).

    Where Spark has a slot to spare, one task always stands by for the next job.

    Args:
        zygote: from which Python daemons of Spark's on this machine are forked, to be ended with it.
    """

    has_tables = True
    loss = "Spark's Java process has ended unexpectedly; its last lines are in the log"

    def __init__(self, settings: SparkSettings, zygote: Zygote | None = None) -> None:
        self._spark = RunningSpark(settings)
        self._zygote = zygote
        self._pools: WorkerPools | None = None
        self._stand_bys: StandBys | None = None
        self._endpoints: Endpoints | None = None
        self._cores: ClusterCores | None = None

    @property
    def name(self) -> str:
        """See `PlacementService.name`."""
        return f"Spark {self._spark.version}"

    @property
    def where(self) -> str:
        """The master URL."""
        return self._spark.master

    @property
    def is_on_this_machine(self) -> bool:
        """See `PlacementService.is_on_this_machine`."""
        return is_on_this_machine(self._spark.master)

    @property
    def host(self) -> str:
        """See `PlacementService.host`."""
        return self._spark.context.getConf().get("spark.driver.host") or ""

    @property
    def binding(self) -> str:
        """See `PlacementService.binding`."""
        conf = self._spark.context.getConf()
        return conf.get("spark.driver.bindAddress") or self.host

    @property
    def cores(self) -> int:
        """See `PlacementService.cores`."""
        assert self._cores is not None
        return self._cores()

    @property
    def slots(self) -> int | None:
        """See `PlacementService.slots`."""
        total = self._spark.slots
        return total if total is None else total - self._stands_by

    @property
    def _is_cluster(self) -> bool:
        """Whether tasks run in other processes than Spark's own, which come and go."""
        return not is_one_process(self._spark.master)

    @property
    def _stands_by(self) -> bool:
        total = self._spark.slots
        return total is not None and total > self.cores

    @property
    def is_alive(self) -> bool:
        """See `PlacementService.is_alive`."""
        return self._spark.is_alive

    def check(self) -> None:
        """See `PlacementService.check`."""
        self._spark.check()

    def start(self) -> None:
        """See `PlacementService.start`."""
        self._spark.start()
        if remark := SPARK.remark(self._spark.version):
            log.warning("%s", remark)
        self._pools = WorkerPools(self._spark.context, self._spark.environment)
        self._cores = ClusterCores(self._spark.context, change=self._is_cluster)

    def warm_up(self) -> None:
        """See `PlacementService.warm_up`; on a cluster `try_out` does it."""
        assert self._pools is not None
        if not self._is_cluster:
            warm_up(self._spark.context, self._pools)

    def try_out(self, needs: Needs) -> frozenset[str]:
        """See `PlacementService.try_out`."""
        assert self._pools is not None
        if not self._is_cluster:
            return frozenset()
        return check_executors(self._spark.context, self._pools, needs)

    def attach(self, endpoints: Endpoints) -> None:
        """See `PlacementService.attach`."""
        assert self._pools is not None
        self._endpoints = endpoints
        self._stand_bys = StandBys(self._pools, endpoints, wanted=self._stands_by)
        self._stand_bys.renew()

    def order(self, number: int) -> StandByOrder:
        """See `PlacementService.order`."""
        assert self._stand_bys is not None
        return self._stand_bys.order(number)

    def job(self, job_id: str, name: str) -> SparkJobs:
        """See `PlacementService.job`."""
        assert self._pools is not None
        assert self._stand_bys is not None
        assert self._endpoints is not None
        endpoint = self._endpoints.of(to_job(job_id))
        stand_bys, cores = self._stand_bys, lambda: self.cores
        return SparkJobs(self._spark, self._pools, stand_bys, endpoint, job_id, cores, name)

    def job_ended(self) -> None:
        """See `PlacementService.job_ended`."""
        assert self._stand_bys is not None
        self._stand_bys.renew()

    def stand_down(self) -> None:
        """See `PlacementService.stand_down`."""
        if self._stand_bys is not None:
            self._stand_bys.close()

    def stop(self) -> None:
        """See `PlacementService.stop`."""
        self._spark.stop()
        if self._zygote is not None:
            self._zygote.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._zygote.wait(_ZYGOTE_SECONDS)

    def kill(self) -> None:
        """See `PlacementService.kill`."""
        self._spark.kill()
        if self._zygote is not None:
            self._zygote.terminate()
