"""Metrics of this process in Prometheus' text format: versions, CPU time, memory and start."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import os
import platform
import resource
import time
from collections.abc import Iterator

_START = time.time()
_RESIDENT_FIELD = 1


def render_process_metrics() -> Iterator[str]:
    """Yields the lines of the metrics. The names follow Prometheus' client libraries."""
    yield "# HELP beam_build_info Versions of the server's parts."
    yield "# TYPE beam_build_info gauge"
    yield (
        f'beam_build_info{{version="{_read_version("beam-runner-web")}",'
        f'beam="{_read_version("apache-beam")}",python="{platform.python_version()}"}} 1'
    )
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield "# HELP process_cpu_seconds_total CPU time of the process of the web pages."
    yield "# TYPE process_cpu_seconds_total counter"
    yield f"process_cpu_seconds_total {used.ru_utime + used.ru_stime:.3f}"
    yield "# HELP process_start_time_seconds Time at which the web pages were loaded."
    yield "# TYPE process_start_time_seconds gauge"
    yield f"process_start_time_seconds {_START:.3f}"
    if (resident := _read_resident_memory()) is not None:
        yield "# HELP process_resident_memory_bytes Memory of the process of the web pages."
        yield "# TYPE process_resident_memory_bytes gauge"
        yield f"process_resident_memory_bytes {resident}"


@functools.cache
def _read_version(distribution: str) -> str:
    """Returns the version of an installed distribution; empty for a source tree."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(distribution)
    return ""


def _read_resident_memory() -> int | None:
    """Returns the memory of this process in bytes; None if the system has no /proc."""
    try:
        with open("/proc/self/statm", "rb") as file:
            pages = int(file.read().split()[_RESIDENT_FIELD])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
