"""Entry point of worker processes for placements (systems that run worker processes) other than
Spark. A placement starts the worker processes.

A placement implements `beam_runner_driver.ports`, or extends `beam_runner_runtime.processes.lanes_only`.

```
placement.create_job_placement(...).start_lane(number, on_end)      in the server, for each lane
    serve_lane(LaneRef(endpoint, job_id, number))  in a dedicated process of that job
```
"""

from __future__ import annotations

from contextlib import ExitStack

from beam_runner_runtime.bundles.binding import bind_worker_process
from beam_runner_runtime.channel.stand_by import LaneRef


def serve_lane(ref: LaneRef) -> None:
    """Runs the bundles that the server assigns to a lane (the connection of a worker process),
    until the server closes the lane.

    A process must run only lanes of one job, and must exit after its last lane.

    Raises:
        HarnessError: The process can't connect to the server.
        RuntimeError: The process has served another job.
    """
    with ExitStack() as at_exit:
        bind_worker_process(ref.endpoint, ref.job_id, at_exit.callback).serve_lane(ref.lane)
