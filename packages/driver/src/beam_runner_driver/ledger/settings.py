"""Settings of a job for its complete lifetime."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from beam_runner_planner.plan import JobPlan
from beam_runner_runtime.channel.messages import JobWork
from beam_runner_runtime.tuning import TUNING

from beam_runner_driver.ledger.job_folder import JobFolder
from beam_runner_driver.ledger.quarantine import QuarantineSettings


@attrs.frozen
class JobSettings:
    """Settings of a job, which don't change during the job.

    Attributes:
        files: files of the job.
        epoch: epoch of the server.
        cores: number of bundles that can use a core at the same time.
        most_lanes: maximum number of running bundles, including blocked bundles.
        loop_bytes: maximum total input size of bundles for which one worker process runs the
            scheduler (the loop inside a task).
        resumable: whether another server can resume the job.
        hides_elements: whether error messages must not contain the failing element.
        checks_watermarks: whether the job fails if a watermark passes unprocessed data.
        keep_seconds: retention time in seconds for the state of failed or cancelled streams; 0
            disables retention.
        generation: number of earlier jobs in a chain of updates that all used this folder.
        client_folder: working directory of the client, which worker processes enter; empty if they
            can't.
        variables: environment variables of user code, by name.
        quarantine: rules of the job's quarantine; None if an element that always fails blocks the
            stream.
        is_shadow: whether the job is a program of a shadow run, which runs no finalization callbacks.
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
    variables: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    generation: int = 0
    quarantine: QuarantineSettings | None = None
    is_shadow: bool = False

    @property
    def file_prefix(self) -> str:
        """Prefix of the names of all files that bundles of this job write.

        The prefix contains the generation, because an updated job uses the same folder and epoch,
        and numbers its loops from the start.
        """
        return f"{self.epoch}g{self.generation}" if self.generation else str(self.epoch)

    @property
    def earlier_files(self) -> str:
        """Pattern that matches the file names of the jobs that this job replaced by updates; empty
        if there are none.

        The pattern matches only files of the current epoch (server start). The server has deleted
        orphan files of earlier epochs at its start.
        """
        if not self.generation:
            return ""
        return rf"{self.epoch}(?!g{self.generation}-)(g\d+)?-.*"

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
            variables=self.variables,
        )
