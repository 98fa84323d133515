"""Makes a process one that workers are forked from: it has imported all that they need."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from beam_runner_runtime import garbage
from beam_runner_runtime.logs import hushed
from beam_runner_runtime.processes import allocation

WARM_MODULES = (
    "pyarrow",
    "numpy",
    "pandas",
    "grpc",
    "apache_beam",
    "apache_beam.runners.worker.bundle_processor",
    "apache_beam.runners.worker.sdk_worker_main",
    "beam_runner_worker.embedded.harness",
    "beam_runner_runtime.bundles.binding",
)

NAMED = "BEAM_RUNNER_IMPORTS"
"""Environment variable: names of further modules, with commas between them, that user code imports."""

_KILLED_FIRST = 500
"""As if a worker had half of the memory besides what it has."""


def import_what_workers_need(more: Iterable[str] = ()) -> None:
    """Imports `WARM_MODULES`, ``more`` and the modules that `NAMED` lists; settles the collector, and how memory is allocated.

    The collector walks nothing of them in workers.
    """
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "false"  # no channel is ever made before the fork
    named = filter(None, map(str.strip, os.environ.get(NAMED, "").split(",")))
    with hushed():
        for name in (*WARM_MODULES, *more, *named):
            try:
                importlib.import_module(name)
            except Exception as error:  # a task that needs it will say so; here only warmth is lost
                sys.stderr.write(f"{name} cannot be imported ahead: {error!r}\n")
    allocation.settle()
    garbage.settle()


def be_killed_first() -> None:
    """Has the system, where memory runs out, kill a worker rather than the server or Spark.

    A bundle whose worker is gone is tried again; without the server all jobs end. Workers and what
    they start inherit it.
    """
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(str(_KILLED_FIRST))
