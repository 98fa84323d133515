"""Settings of a job for its complete lifetime."""

from __future__ import annotations

import attrs
from beam_runner_planner.plan import JobPlan

from beam_runner_runtime.channel.messages import JobWork
from beam_runner_runtime.driver.job_folder import JobFolder
from beam_runner_runtime.tuning import TUNING


@attrs.frozen
class JobSettings:
    """Settings of a job, which don't change during the job.

    Attributes:
        files: files of the job.
        epoch: epoch of the server.
        cores: number of bundles that can use a core at the same time.
        most_lanes: maximum number of running bundles, including blocked bundles.
        loop_bytes: maximum total input size of bundles for the loop inside a task.
        resumable: whether another server can resume the job.
        hides_elements: whether errors must not show the processed element.
        checks_watermarks: whether the job fails if a watermark overtakes data.
        keep_seconds: retention time in seconds for the state of failed or cancelled streams; 0
            disables retention.
        client_folder: working directory of the client, which worker processes enter; empty if they
            can't.
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
    client_folder: str = ""

    def make_job_work(self, plan: JobPlan, shards: int, now: int) -> JobWork:
        """Returns the plan and settings for a worker process, at processing time `now` (ms)."""
        return JobWork(
            plan,
            shards,
            self.files.spec,
            hides_elements=self.hides_elements,
            now=now,
            folder=str(self.files.folder),
            checks_watermarks=self.checks_watermarks,
            client_folder=self.client_folder,
        )
