"""Spark tasks that run a lane: each task stays in a Python worker and runs one bundle after the other."""

from __future__ import annotations

from beam_runner_runtime.bundles.binding import bind_process
from beam_runner_runtime.channel.client import wait_for_lane
from beam_runner_runtime.channel.messages import Endpoint
from beam_runner_runtime.channel.stand_by import EndStandBy, LaneRef

from beam_spark_executor.spark.python_daemon import register_exit_hook


def run_lane(ref: LaneRef) -> None:
    """Runs a lane as one Spark task."""
    bind_process(ref.endpoint, ref.job_id, register_exit_hook).serve_lane(ref.lane)


def run_stand_by(endpoint: Endpoint, number: int) -> None:
    """Waits as one Spark task until a job needs a lane, and runs the lane."""
    order = wait_for_lane(endpoint, number)
    if not isinstance(order, EndStandBy):
        run_lane(order)
