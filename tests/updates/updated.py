"""Stream that is updated several times, and the sums of the counters of all its jobs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import attrs
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from edited import WINDOW, Edit, Stream, build
from jobs import Job, Pipelines
from waiting import wait_until

NAME = "numbers"
RUNNING_SECONDS = 60.0


@attrs.define
class UpdatedStream:
    """Jobs of one stream, each of which replaces the job before it.

    Attributes:
        pipelines: factory of pipelines for the server.
        stream: parameters of the stream.
        earlier: jobs on the server before the stream.
        jobs: submitted jobs, including refused jobs.
    """

    pipelines: Pipelines
    stream: Stream
    earlier: frozenset[str]
    jobs: list[Job] = attrs.field(factory=list)

    @classmethod
    def begin(
        cls, pipelines: Pipelines, folder: Path, seconds: int, edit: Edit = Edit()
    ) -> UpdatedStream:
        """Starts the first job of a stream, and waits until it runs."""
        start = (int(time.time()) // WINDOW + 1) * WINDOW
        with JobClient(pipelines.address) as client:
            earlier = frozenset(job.job_id for job in client.list_jobs())
        stream = Stream(start, seconds, str(folder / "results"), str(folder / "may-end"))
        begun = cls(pipelines, stream, earlier)
        begun.submit(edit).wait_for(JobState.RUNNING, RUNNING_SECONDS)
        return begun

    def submit(self, edit: Edit, *flags: str) -> Job:
        """Submits a version of the pipeline."""
        pipeline = self.pipelines.new("--streaming", f"--job_name={NAME}", *flags)
        build(pipeline, self.stream, edit)
        job = self.pipelines.job(pipeline)
        self.jobs.append(job)
        return job

    def update(self, edit: Edit, *flags: str) -> Job:
        """Replaces the running job, and waits until the new job runs."""
        job = self.submit(edit, "--update", *flags)
        job.wait_for(JobState.RUNNING, RUNNING_SECONDS)
        return job

    def wait_for_numbers(self, seconds: float) -> None:
        """Waits until the source has emitted a few more numbers."""
        time.sleep(seconds)

    def release_end(self) -> None:
        """Lets the stream end after its last number, which waits until then."""
        Path(self.stream.may_end).touch()

    def wait_for_results(self) -> None:
        """Waits until a window has fired, so that each step with state has some."""
        wait_until(lambda: self.count_results()["right windows"] > 0, RUNNING_SECONDS)

    def list_states(self) -> list[JobState]:
        """Returns the states of all jobs."""
        return [job.state() for job in self.jobs]

    def count_results(self) -> dict[str, int]:
        """Returns the sums of the counters of all jobs of the stream on the server."""
        with JobClient(self.pipelines.address) as client:
            jobs = [job.job_id for job in client.list_jobs() if job.job_id not in self.earlier]
            return count_committed(client, jobs, tuple(self.stream.results))

    def check_results(self) -> None:
        """Checks that the committed counters and the log contain each result of the stream once."""
        counted, logged = self.count_results(), self.stream.count_logged_results()
        assert counted == logged == self.stream.results, (counted, logged, self.stream.results)


def count_committed(
    client: JobClient, job_ids: Sequence[str], names: Sequence[str]
) -> dict[str, int]:
    """Returns the sums of committed counters over jobs."""
    from beam_runner_jobservices.figures.step_metrics import compute_figures
    from beam_runner_jobservices.figures.step_tree import StepTree
    from beam_runner_jobservices.wire.descriptions import describe_pipeline

    totals = dict.fromkeys(names, 0)
    for job_id in job_ids:
        tree = StepTree(describe_pipeline(client.get_pipeline(job_id)))
        for counter in compute_figures(client.get_metrics(job_id), tree, ()).user:
            if counter.name in totals:
                totals[counter.name] += counter.committed or 0
    return totals


def find_latest_job(client: JobClient, known: Sequence[str]) -> str:
    """Returns the job of the stream that isn't known yet; empty if none exists."""
    return next(
        (
            job.job_id
            for job in client.list_jobs()
            if job.job_name == NAME and job.job_id not in known
        ),
        "",
    )


def wait_for_state(address: str, job_id: str, state: JobState, seconds: float) -> None:
    """Waits until a job of a server is in a state. Fails immediately if the job ends in another state."""

    def is_in_state() -> bool:
        with JobClient(address) as client:
            current = client.get_state(job_id).state
            errors = {one.job_id: one.error for one in client.get_job_times()}
        assert current is state or not current.is_terminal, (job_id, current, errors[job_id])
        return current is state

    wait_until(is_in_state, seconds, f"{job_id} is {state.name}")
