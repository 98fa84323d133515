"""Main function of a worker process that runs without Spark."""

from __future__ import annotations

from contextlib import ExitStack

from beam_runner_runtime.bundles.binding import bind_worker_process
from beam_runner_runtime.channel.client import wait_for_lane
from beam_runner_runtime.channel.messages import Endpoint
from beam_runner_runtime.channel.stand_by import LaneRef


def serve_lanes(endpoint: Endpoint, number: int) -> None:
    """Runs the lanes that the server assigns to the worker with this number, until the server
    orders the worker to exit. All lanes belong to one job.

    Raises:
        HarnessError: The process can't connect to the server.
    """
    with ExitStack() as at_exit:
        while isinstance(order := wait_for_lane(endpoint, number), LaneRef):
            bind_worker_process(order.endpoint, order.job_id, at_exit.callback).serve_lane(
                order.lane
            )
