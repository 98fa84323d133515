"""What the process of a lane runs, on the placement of another engine.

A placement implements the ports of `driver.ports`, or extends `processes.lanes_only`.

```
placement.job(...).start_lane(number, on_end)      in the server, for each lane
    serve_lane(LaneRef(endpoint, job_id, number))  in a process of that job alone
```
"""

from __future__ import annotations

from contextlib import ExitStack

from beam_runner_runtime.bundles.binding import bind
from beam_runner_runtime.channel.stand_by import LaneRef


def serve_lane(ref: LaneRef) -> None:
    """Serves a lane until the server closes it. The process serves lanes of this job alone, and ends after it.

    Raises:
        HarnessError: the server can't be reached.
        RuntimeError: the process has worked for another job.
    """
    with ExitStack() as at_exit:
        bind(ref.endpoint, ref.job_id, at_exit.callback).serve(ref.lane)
