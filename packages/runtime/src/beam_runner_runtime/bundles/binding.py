"""Binding of this worker process to a job: the process serves the first job that requests it, and never another job."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from beam_runner_runtime.bundles.process import WorkerProcess
from beam_runner_runtime.channel.messages import Endpoint

_process: WorkerProcess | None = None
_lock = threading.Lock()


def bind_worker_process(
    endpoint: Endpoint, job_id: str, at_exit: Callable[[Callable[[], None]], object]
) -> WorkerProcess:
    """Binds this worker process to a job on the first call, and returns the process.

    Args:
        at_exit: function that registers a callback for a normal exit of this process.

    Raises:
        RuntimeError: The process is bound to another job. This is an error of the placement, which
            must use separate processes for each job.
    """
    global _process
    with _lock:
        if _process is None:
            _process = WorkerProcess(endpoint, job_id)
            at_exit(_process.close)
        if _process.job_id != job_id:
            raise RuntimeError(
                f"worker process {os.getpid()} already serves job {_process.job_id!r}, and can't "
                f"serve job {job_id!r}, too"
            )
        return _process
