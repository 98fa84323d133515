"""How many tasks the executors of an application can run at once, as it is now: they come, go, and are lost."""

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
    """All methods may be called from any thread.

    Args:
        context: whose they are.
        change: whether they may; on one machine they don't.
    """

    def __init__(self, context: SparkContext, *, change: bool = True) -> None:
        self._context = context
        self._conf = dict(self._context.getConf().getAll())
        self._lock = threading.Lock()
        self._asked = 0.0
        self._cores = 0
        self._change = change

    def __call__(self) -> int:
        """The cores; costs a call to Java, once a second."""
        with self._lock:
            now = time.monotonic()
            if not self._cores or (self._change and now - self._asked > _ASK_AGAIN_SECONDS):
                self._asked = now
                self._ask()
            return self._cores

    def _ask(self) -> None:
        try:
            found = cores_of(self._context.defaultParallelism, self._conf)
        except Exception:  # whatever the bridge to a Java process that is gone comes up with
            _LOGGER.debug("Spark does not say how many cores there are", exc_info=True)
            return
        if self._cores not in (0, found):
            _LOGGER.info("bundles have %d cores now, and had %d", found, self._cores)
        self._cores = found


def cores_of(registered: int, conf: Mapping[str, str]) -> int:
    """How many tasks may be asked for at once.

    Args:
        registered: the cores of all executors that are there.
        conf: Spark's properties. Where it allocates executors as tasks wait, they are asked for those that it may
            still allocate; if it has no limit, for twice as many as there are.
    """
    cores = registered
    if conf.get("spark.dynamicAllocation.enabled") == "true":
        most = conf.get("spark.dynamicAllocation.maxExecutors", "")
        each = int(conf.get("spark.executor.cores", "1"))
        cores = max(cores, int(most) * each) if most.isdecimal() else cores * _GROWTH
    return max(1, cores // int(conf.get("spark.task.cpus", "1")))
