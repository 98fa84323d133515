"""Which job this process works for: the first that it is asked to, and no other ever."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from beam_runner_runtime.bundles.process import WorkerProcess
from beam_runner_runtime.channel.messages import Endpoint

_process: WorkerProcess | None = None
_lock = threading.Lock()


def bind(
    endpoint: Endpoint, job_id: str, at_exit: Callable[[Callable[[], None]], object]
) -> WorkerProcess:
    """This process, bound to the job from the first call on.

    Args:
        at_exit: has what it is given called once before this process ends in good order.

    Raises:
        RuntimeError: it is bound to another job: the pools of workers were mixed up.
    """
    global _process
    with _lock:
        if _process is None:
            _process = WorkerProcess(endpoint, job_id)
            at_exit(_process.close)
        if _process.job_id != job_id:
            raise RuntimeError(
                f"worker process {os.getpid()} serves job {_process.job_id!r}, not {job_id!r}"
            )
        return _process
