"""Orders of the server for a stand-by worker process, which waits for the first lane of the next job."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from beam_runner_runtime.channel.messages import Endpoint


@attrs.frozen
class ServeLane:
    """Order to become a worker process of a job, and to serve this lane first."""

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
    """Order to end the stand-by task, because no job needs the process."""


StandByOrder: TypeAlias = ServeLane | EndStandBy | None
"""Order for a stand-by process; None if the server hasn't decided yet, and the process must ask again."""
