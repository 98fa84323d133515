"""Code of Dask's workers: each lane is a separate process, which Dask's task starts and waits for."""

from __future__ import annotations

import multiprocessing
from multiprocessing.process import BaseProcess

from beam_runner_runtime.channel.stand_by import LaneRef
from beam_runner_runtime.placements import serve_lane

# Lanes are forked from a process that has imported Beam, which takes seconds.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["beam_runner_embedded.harness", "beam_runner_runtime.placements"])

_running: dict[str, list[BaseProcess]] = {}


def run_lane(ref: LaneRef) -> str:
    """Serves a lane in a separate process; returns the cause of a failure, or an empty text."""
    process = FORKS.Process(target=serve_lane, args=(ref,))
    _running.setdefault(ref.job_id, []).append(process)
    try:
        process.start()
        process.join()
    finally:
        _running[ref.job_id].remove(process)
    code = process.exitcode
    return "" if code == 0 else f"its worker process ended with code {code}"


def kill_lanes(job_id: str) -> None:
    """Kills the processes of a job on this worker."""
    for process in list(_running.get(job_id, ())):
        process.kill()
