"""Orders for stand-by worker processes. A stand-by process is started before a job needs it, and
waits for the first lane of the next job.
"""

from __future__ import annotations

from typing import TypeAlias

import attrs

from beam_runner_runtime.channel.messages import Endpoint


@attrs.frozen
class ServeLane:
    """Order to become a worker process of a job, and to run the bundles that the server assigns to
    this lane.
    """

    job_id: str
    lane: int


@attrs.frozen
class LaneRef:
    """Lane of a job, and the endpoint from which the process gets the bundles of the lane."""

    endpoint: Endpoint
    job_id: str
    lane: int


@attrs.frozen
class EndStandBy:
    """Order to exit, because the server needs the stand-by process for no job."""


StandByOrder: TypeAlias = ServeLane | EndStandBy | None
"""Order for a stand-by process; None if the server hasn't decided yet, and the process must ask again."""
