"""What somebody needs who writes a placement: the ports to implement, and what a process of a lane runs.

```
placement.job(...).start_lane(number, on_end)      in the server, for each lane
    serve_lane(LaneRef(endpoint, job_id, number))  in a process of that job alone
```
"""

from __future__ import annotations

from contextlib import ExitStack

from beam_runner_runtime.bundles.binding import bind
from beam_runner_runtime.channel.endpoints import Endpoints, to_job
from beam_runner_runtime.channel.messages import Endpoint
from beam_runner_runtime.channel.stand_by import LaneRef
from beam_runner_runtime.driver.ports import JobPlacement, Placement
from beam_runner_runtime.processes.lanes_only import LanesOnly, LanesOnlyJob

__all__ = [
    "Endpoint",
    "Endpoints",
    "JobPlacement",
    "LaneRef",
    "LanesOnly",
    "LanesOnlyJob",
    "Placement",
    "serve_lane",
    "to_job",
]


def serve_lane(ref: LaneRef) -> None:
    """Serves a lane until the server closes it. The process serves lanes of this job alone, and ends after it.

    Raises:
        HarnessError: the server can't be reached.
        RuntimeError: the process has worked for another job.
    """
    with ExitStack() as at_exit:
        bind(ref.endpoint, ref.job_id, at_exit.callback).serve(ref.lane)
