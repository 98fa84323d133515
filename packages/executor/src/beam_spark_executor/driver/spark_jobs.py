"""One job's dealings with Spark: its slot, its job group, its threads, and Spark's errors in words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ParamSpec

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from beam_spark_executor.spark.pool import WorkerPools

_P = ParamSpec("_P")

# Spark gives a job up where a lost shuffle output, computed again, came out differently.
_INDETERMINATE = re.compile("indeterminate", re.IGNORECASE)
_SHARDS_PER_CORE = 2


class SparkJobs:
    """All Spark jobs of one Beam job; methods may be called from any thread."""

    def __init__(self, session: SparkSession, pools: WorkerPools, job_id: str) -> None:
        self.session = session
        self.pools = pools
        self.slot = pools.acquire()
        self.tasks = max(2, session.sparkContext.defaultParallelism * _SHARDS_PER_CORE)
        self._group = f"beam-{job_id}"

    def spawn(self, function: Callable[_P, None], *args: _P.args, **kwargs: _P.kwargs) -> None:
        """Calls a function on a new thread, from which Spark jobs may be run."""
        thread = InheritableThread(
            self._in_group, args=(function, *args), kwargs=kwargs, session=self.session
        )
        thread.daemon = True
        thread.start()

    def cancel(self) -> None:
        """Stops all Spark jobs of this Beam job, and no others; returns at once."""
        self.session.sparkContext.cancelJobGroup(self._group)

    def close(self, *, workers_gone: bool) -> None:
        """Gives the slot back; for good if some of its Python workers may still be there."""
        if workers_gone:
            self.pools.release(self.slot)
        else:
            self.pools.retire(self.slot)

    def is_worth_repeating(self, error: str) -> bool:
        """Whether running the same section again may succeed where Spark's own retries can't."""
        return bool(_INDETERMINATE.search(error))

    def explain(self, error: Exception, last_broken: str) -> str:
        """Spark's error in a few words, with what the last task that broke said of itself."""
        text = str(error).strip()
        indeterminate = _INDETERMINATE.search(text)
        if indeterminate is not None:
            return f"Spark gave up on indeterminate output: {text.splitlines()[0]}"
        if last_broken:
            return f"a task failed as often as Spark tries it, the last time with: {last_broken}"
        first_line = text.splitlines()[0] if text else type(error).__name__
        return f"Spark gave up: {first_line}"

    def _in_group(self, function: Callable[_P, None], *args: _P.args, **kwargs: _P.kwargs) -> None:
        # interruptOnCancel also interrupts the JVM's task threads, which makes Spark kill the
        # Python workers of tasks that do not stop by themselves.
        self.session.sparkContext.setJobGroup(self._group, self._group, interruptOnCancel=True)
        # A scheduler pool for each slot: jobs that run at the same time share the cores.
        self.session.sparkContext.setLocalProperty("spark.scheduler.pool", self.slot.name)
        function(*args, **kwargs)
