"""What a job is run with, all its life."""

from __future__ import annotations

import attrs
from beam_runner_planner.plan import JobPlan

from beam_runner_runtime.channel.messages import JobWork
from beam_runner_runtime.driver.job_folder import JobFolder
from beam_runner_runtime.tuning import TUNING


@attrs.frozen
class JobSettings:
    """What a job is run with.

    Attributes:
        files: the job's files.
        epoch: of the server.
        cores: how many bundles can use a core at once.
        most_lanes: how many bundles may run at once, blocked ones included.
        loop_bytes: the loop inside a task is for bundles whose inputs are together no larger.
        resumable: another server can go on with the job if this one can't.
        hides_elements: errors must not show the element that was processed.
        checks_watermarks: whether the job fails where a watermark overtakes data.
        keep_seconds: how long the state of a stream that failed or was cancelled is kept; 0 keeps none.
    """

    files: JobFolder
    epoch: int
    cores: int
    most_lanes: int
    loop_bytes: int = TUNING.loop_bytes
    resumable: bool = False
    hides_elements: bool = False
    checks_watermarks: bool = False
    keep_seconds: float = 0.0

    def work(self, plan: JobPlan, shards: int, now: int) -> JobWork:
        """All that a worker process must know of the job, at this processing time (ms)."""
        return JobWork(
            plan,
            shards,
            self.files.spec,
            hides_elements=self.hides_elements,
            now=now,
            folder=str(self.files.folder),
            checks_watermarks=self.checks_watermarks,
        )
