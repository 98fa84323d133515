"""Job of the server, with the data that observers can read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import cached_property

from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.errors import JobApiError
from beam_runner_jobservices.figures.step_metrics import JobFigures, compute_figures
from beam_runner_jobservices.figures.step_tree import StepTree
from beam_runner_jobservices.job_log import MOST_LINES, JobLogLine, LogQuery
from beam_runner_jobservices.wire.descriptions import describe_pipeline
from beam_runner_model.jobs import JobInfo, JobMetrics, JobState
from beam_runner_model.observation import Execution, JobTimes


class ObservedJob:
    """Job with its metrics, steps, bundles and log, which are requested from the server when an
    exporter needs them.

    Args:
        info: entry of the job in the list of jobs.
        is_new: whether the job was submitted to this server, and not to an earlier one.

    Attributes:
        times: times of the job at the latest poll.
        state: state of the job at the latest poll.
    """

    def __init__(self, client: JobClient, info: JobInfo, times: JobTimes, *, is_new: bool) -> None:
        self._client = client
        self._last_line = 0
        self.job_id, self.name = info.job_id, info.job_name
        self.times, self.state = times, info.state
        self.is_new = is_new

    def refresh(self, state: JobState, times: JobTimes) -> None:
        """Updates the state and the times, and discards all data of the previous poll."""
        self.state, self.times = state, times
        self.__dict__.pop("metrics", None)
        self.__dict__.pop("figures", None)

    @property
    def submitted(self) -> float:
        """Time of the submission, in seconds since the epoch."""
        return self.times.submitted or self.times.started or time.time()

    @cached_property
    def metrics(self) -> JobMetrics:
        """The metrics of the job."""
        return self._client.get_metrics(self.job_id)

    @cached_property
    def tree(self) -> StepTree:
        """The steps of the job."""
        return StepTree(describe_pipeline(self._client.get_pipeline(self.job_id)))

    @cached_property
    def figures(self) -> JobFigures:
        """The metrics of the job by step and stage."""
        return compute_figures(self.metrics, self.tree)

    def read_execution(self) -> Execution:
        """Returns the running bundles of the job; none if the job doesn't run."""
        try:
            return self._client.get_execution(self.job_id)
        except JobApiError:
            return Execution()

    def iterate_new_lines(self) -> Iterator[JobLogLine]:
        """Yields the lines of the job's log since the previous call, at most the latest 1,000."""
        for line in self._client.query_logs(self.job_id, LogQuery(most=MOST_LINES)).lines:
            if line.id > self._last_line:
                self._last_line = line.id
                yield line
