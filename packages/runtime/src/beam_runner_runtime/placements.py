"""Entry point of a worker process for one lane, for placements on engines other than Spark.

A placement implements the ports of `driver.ports`, or extends `processes.lanes_only`.

```
placement.job(...).start_lane(number, on_end)      in the server, for each lane
    serve_lane(LaneRef(endpoint, job_id, number))  in a dedicated process of that job
```
"""

from __future__ import annotations

from contextlib import ExitStack

from beam_runner_runtime.bundles.binding import bind_process
from beam_runner_runtime.channel.stand_by import LaneRef


def serve_lane(ref: LaneRef) -> None:
    """Serves a lane until the server closes the lane.

    The process must serve only lanes of this job, and must exit after its last lane.

    Raises:
        HarnessError: The process can't connect to the server.
        RuntimeError: The process has served another job.
    """
    with ExitStack() as at_exit:
        bind_process(ref.endpoint, ref.job_id, at_exit.callback).serve_lane(ref.lane)
