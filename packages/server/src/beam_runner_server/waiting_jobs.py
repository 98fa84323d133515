"""Jobs that wait for their placement, which can take minutes, and cancellation of such jobs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

import attrs
from beam_runner_jobservices.ports import JobHandle, JobReporter
from beam_runner_model.jobs import JobMetrics, JobState

_T = TypeVar("_T")
_LOOK_SECONDS = 0.5


@attrs.frozen
class NeverStartedJob(JobHandle):
    """Handle of a job that never ran on this server."""

    def cancel(self) -> None:
        """Does nothing, because an ended job has nothing to cancel."""

    def drain(self) -> None:
        """Does nothing, because an ended job has nothing to drain."""

    def metrics(self) -> JobMetrics:
        """Returns no metrics, because the job never ran."""
        return JobMetrics()


def wait_for_job_need(
    what: Future[_T], state: Callable[[], JobState], reporter: JobReporter
) -> _T | NeverStartedJob:
    """Waits for an object that a job needs, and returns it; ends the job if the job is cancelled
    first.

    Args:
        what: future of the object.
        state: function that returns the state of the job.
        reporter: reporter of the end of the job.

    Raises:
        Exception: The object can't be created.
    """
    while not wait([what], _LOOK_SECONDS).done:
        if state() is JobState.CANCELLING:
            reporter.state(JobState.CANCELLED)
            return NeverStartedJob()
    return what.result()
