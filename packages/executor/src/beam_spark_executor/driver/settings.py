"""What a job is run with, all its life."""

from __future__ import annotations

from pathlib import Path

import attrs

from beam_spark_executor.channel.messages import JobWork
from beam_spark_executor.plan import JobPlan


@attrs.frozen
class JobSettings:
    """What a job is run with.

    Attributes:
        folder: the job's own, which all executors can read and write.
        epoch: of the server.
        cores: how many bundles can use a core at once.
        most_lanes: how many bundles may run at once, blocked ones included.
        loop_bytes: the loop inside a task is for bundles whose inputs are together no larger.
        resumable: another server can go on with the job if this one can't.
        hides_elements: errors must not show the element that was processed.
        durable: what is committed survives the machine, not only this server.
    """

    folder: Path
    epoch: int
    cores: int
    most_lanes: int
    loop_bytes: int = 256 * 1024
    resumable: bool = False
    hides_elements: bool = False
    durable: bool = False

    def work(self, plan: JobPlan, shards: int, now: int) -> JobWork:
        """All that a worker process must know of the job, at this processing time (ms)."""
        return JobWork(
            plan,
            shards,
            str(self.folder),
            hides_elements=self.hides_elements,
            now=now,
            durable=self.durable,
        )
