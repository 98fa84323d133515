"""What the server tells a worker process that stands by for the next job's first lane."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from beam_runner_runtime.channel.messages import Endpoint


@attrs.frozen
class ServeLane:
    """Work for a job from now on, beginning with this lane."""

    job_id: str
    lane: int


@attrs.frozen
class LaneRef:
    """A lane of a job, and the server to ask for its bundles: what a process is told that is to serve it."""

    endpoint: Endpoint
    job_id: str
    lane: int


@attrs.frozen
class StandDown:
    """Nobody needs the process: its task ends."""


StandByOrder: TypeAlias = ServeLane | StandDown | None
"""None if nothing is decided yet: then the process asks again."""
