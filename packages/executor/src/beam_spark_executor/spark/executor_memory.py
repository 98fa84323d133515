"""Memory limit of an executor together with its Python workers, computed from Spark's settings."""

from __future__ import annotations

import re
from collections.abc import Mapping

_HEAP = "spark.executor.memory"
_OVERHEAD = "spark.executor.memoryOverhead"
_FACTOR = "spark.executor.memoryOverheadFactor"
_LEAST_OVERHEAD = "spark.executor.minMemoryOverhead"
_PYTHON = "spark.executor.pyspark.memory"
_UNITS = {"b": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
_SIZE = re.compile(r"(\d+)\s*(?:([bkmgtp])b?)?", re.IGNORECASE)


def compute_executor_memory_limit(conf: Mapping[str, str]) -> int | None:
    """Returns the memory limit of an executor in bytes (heap, overhead and Python memory); None if
    Python may use all memory of the machine.

    YARN kills an executor that exceeds the limit, often without a control group in which the limit
    is visible. On other clusters, the sum is a limit only if the user has set the overhead. The
    function ignores invalid values, because Spark refuses them.
    """
    is_yarn = conf.get("spark.master") == "yarn"
    if not is_yarn and not conf.keys() & {_OVERHEAD, _PYTHON}:
        return None
    heap = _parse_size(conf.get(_HEAP, "1g"))
    python = _parse_size(conf.get(_PYTHON, "0"))
    try:
        factor = float(conf.get(_FACTOR, "0.1"))
    except ValueError:
        return None
    least = _parse_size(conf.get(_LEAST_OVERHEAD, "384m"))
    stated = _parse_size(conf[_OVERHEAD]) if _OVERHEAD in conf else 0
    if heap is None or python is None or least is None or stated is None:
        return None
    return heap + python + (stated or max(least, int(heap * factor)))


def _parse_size(text: str) -> int | None:
    """Returns a size in Spark's format for these settings, in MiB by default, as bytes."""
    found = _SIZE.fullmatch(text.strip())
    return None if found is None else int(found[1]) << _UNITS[(found[2] or "m").lower()]
