"""Preparation of a process from which workers are forked: imports all modules that workers need."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from beam_runner_runtime import garbage
from beam_runner_runtime.logs import suppress_import_warnings
from beam_runner_runtime.processes import allocation

WARM_MODULES = (
    "pyarrow",
    "numpy",
    "pandas",
    "grpc",
    "apache_beam",
    "apache_beam.runners.worker.bundle_processor",
    "apache_beam.runners.worker.sdk_worker_main",
    "beam_runner_embedded.harness",
    "beam_runner_runtime.bundles.binding",
)

NAMED = "BEAM_RUNNER_IMPORTS"
"""Environment variable with a comma-separated list of modules that user code needs, and that are
imported in advance.
"""

_KILLED_FIRST = 500
"""Amount by which a worker's out-of-memory score is increased, so that Linux kills workers first.
500 counts like half of the machine's memory.
"""


def import_worker_modules(more: Iterable[str] = ()) -> None:
    """Imports `WARM_MODULES`, ``more`` and the modules in `NAMED`, and tunes garbage collection and
    memory allocation.

    The garbage collector skips these modules in workers.
    """
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = (
        "false"  # the process creates no gRPC channel before the fork
    )
    named = filter(None, map(str.strip, os.environ.get(NAMED, "").split(",")))
    with suppress_import_warnings():
        for name in (*WARM_MODULES, *more, *named):
            try:
                importlib.import_module(name)
            except Exception as error:  # the task that needs the module reports the error
                sys.stderr.write(f"can't preload {name}: {error!r}\n")
    allocation.tune_allocator()
    garbage.tune_garbage_collector()


def prefer_as_out_of_memory_victim() -> None:
    """Makes the out-of-memory killer of Linux kill this worker before the server or Spark.

    The runner retries the bundle of a killed worker. A kill of the server would end all jobs.
    Workers and their child processes inherit the setting.
    """
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_KILLED_FIRST))
