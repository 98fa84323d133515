"""Spark tasks that run lanes. A lane is a worker process that runs bundles one after the other. A
lane is one long Spark task, in which a Python worker runs one bundle after the other.
"""

from __future__ import annotations

from beam_runner_runtime.bundles.binding import bind_worker_process
from beam_runner_runtime.channel.client import wait_for_lane
from beam_runner_runtime.channel.messages import Endpoint
from beam_runner_runtime.channel.stand_by import EndStandBy, LaneRef

from beam_spark_executor.spark.python_daemon import register_exit_hook


def run_lane(ref: LaneRef) -> None:
    """Runs a lane in a Spark task: processes bundles until the server closes the lane."""
    bind_worker_process(ref.endpoint, ref.job_id, register_exit_hook).serve_lane(ref.lane)


def run_standby_task(endpoint: Endpoint, number: int) -> None:
    """Waits in a Spark task until the server assigns a lane of a job, and then runs the lane."""
    order = wait_for_lane(endpoint, number)
    if not isinstance(order, EndStandBy):
        run_lane(order)
