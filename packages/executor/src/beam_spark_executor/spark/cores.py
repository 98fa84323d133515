"""Current number of tasks that the executors of the Spark application can run in parallel. The
number changes as executors start, stop and fail.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping

from pyspark import SparkContext

_ASK_AGAIN_SECONDS = 1.0
_GROWTH = 2
_LOGGER = logging.getLogger(__name__)


class ClusterCores:
    """Function that returns the number of cores of the application's executors. Thread-safe.

    Args:
        change: whether the number can change; on one machine it can't.
    """

    def __init__(self, context: SparkContext, *, change: bool = True) -> None:
        self._context = context
        self._conf = dict(self._context.getConf().getAll())
        self._lock = threading.Lock()
        self._asked = 0.0
        self._cores = 0
        self._change = change

    def __call__(self) -> int:
        """Returns the number of cores; sends a request to Java at most once a second."""
        with self._lock:
            now = time.monotonic()
            if not self._cores or (self._change and now - self._asked > _ASK_AGAIN_SECONDS):
                self._asked = now
                self._read_core_count()
            return self._cores

    def _read_core_count(self) -> None:
        try:
            found = compute_max_concurrent_tasks(self._context.defaultParallelism, self._conf)
        except Exception:  # any error that the bridge raises if the Java process is gone
            _LOGGER.debug("Can't read the number of cores from Spark", exc_info=True)
            return
        if self._cores not in (0, found):
            _LOGGER.info("bundles can use %d cores now, instead of %d", found, self._cores)
        self._cores = found


def compute_max_concurrent_tasks(registered: int, conf: Mapping[str, str]) -> int:
    """Returns the maximum number of tasks that may run in parallel.

    Args:
        registered: the cores of all registered executors.
        conf: Spark's properties. With dynamic allocation, the result includes the executors that
            Spark may still allocate. Without a maximum number of executors, the result is twice the
            current number.
    """
    cores = registered
    if conf.get("spark.dynamicAllocation.enabled") == "true":
        most = conf.get("spark.dynamicAllocation.maxExecutors", "")
        each = int(conf.get("spark.executor.cores", "1"))
        cores = max(cores, int(most) * each) if most.isdecimal() else cores * _GROWTH
    return max(1, cores // int(conf.get("spark.task.cpus", "1")))
