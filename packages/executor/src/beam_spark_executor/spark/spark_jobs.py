"""One job's dealings with Spark: its slot, its job group, and the Spark jobs that are its lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from beam_spark_executor.channel.messages import Endpoint
from beam_spark_executor.channel.stand_by import ServeLane
from beam_spark_executor.spark.lane import LaneRef, run_lane
from beam_spark_executor.spark.pool import Slot, WorkerPools
from beam_spark_executor.spark.session import answers
from beam_spark_executor.spark.stand_by import StandBy, StandBys
from beam_spark_executor.spark.threads import job_thread

LaneStarter = Callable[[int], None]
"""Has Spark start the lane with this number."""


class SparkJobs:
    """All Spark jobs of one Beam job, and from the first one on its slot.

    Methods belong to the job's own thread, but `is_alive` to any.
    """

    def __init__(
        self,
        session: SparkSession,
        pools: WorkerPools,
        stand_bys: StandBys,
        endpoint: Endpoint,
        job_id: str,
        name: str = "",
    ) -> None:
        self._session = session
        self._pools = pools
        self._endpoint = endpoint
        self._job_id = job_id
        self._stand_bys = stand_bys
        self._stand_by: StandBy | None = None
        self._slot: Slot | None = None
        self._group = f"beam-{job_id}"
        self._name = name or job_id

    @property
    def interface(self) -> str:
        """The address of Spark's own pages; empty where they are not served."""
        return str(self._session.sparkContext.uiWebUrl or "")

    @property
    def is_alive(self) -> bool:
        """Whether Spark itself runs; costs about a millisecond."""
        return answers(self._session)

    def start_lane(self, number: int, on_end: Callable[[int, str], None]) -> None:
        """Runs a lane as a Spark job of one task, on a thread of its own.

        The first one may go to the task that stands by. ``on_end`` is called with the lane's number
        when it has ended, and with Spark's error in a few words, or nothing.
        """
        if self._slot is None:
            self._stand_by = self._stand_bys.take()
            self._slot = self._pools.acquire() if self._stand_by is None else self._stand_by.slot
        order = ServeLane(self._job_id, number)
        if self._stand_by is not None and self._stand_by.serve(order, on_end):
            return
        job_thread(
            self._session, f"lane-{number}", self._run_lane, self._slot, number, on_end
        ).start()

    def cancel(self) -> None:
        """Stops all Spark jobs of this Beam job, and no others; returns at once."""
        self._session.sparkContext.cancelJobGroup(self._group)
        if self._stand_by is not None:
            self._session.sparkContext.cancelJobGroup(self._stand_by.group)

    def close(self, *, workers_gone: bool) -> None:
        """Gives the slot back; for good if some of its Python workers may still be there."""
        if self._slot is None:
            return
        if workers_gone:
            self._pools.release(self._slot)
        else:
            self._pools.retire(self._slot)

    def _run_lane(self, slot: Slot, number: int, on_end: Callable[[int, str], None]) -> None:
        ref = LaneRef(self._endpoint, self._job_id, number)
        title = f"{self._name} · lane {number}"

        def serve(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return run_lane(ref, batches)

        on_end(number, self._pools.run_one_task(self._session, slot, self._group, serve, title))
