"""Wait of a job until worker processes can start. The wait can take minutes, and the job can be
cancelled meanwhile.
"""

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
        """Does nothing, because the job has ended."""

    def drain(self) -> None:
        """Does nothing, because the job has ended."""

    def get_metrics(self) -> JobMetrics:
        """Returns empty metrics, because the job never ran."""
        return JobMetrics()


def wait_for_requirement(
    what: Future[_T], state: Callable[[], JobState], reporter: JobReporter
) -> _T | NeverStartedJob:
    """Waits for an object that a job needs, such as the system for its worker processes, and
    returns the object. If the job is cancelled meanwhile, ends the job.

    Args:
        what: future of the object.
        state: function that returns the state of the job.

    Raises:
        Exception: The object can't be created.
    """
    while not wait([what], _LOOK_SECONDS).done:
        if state() is JobState.CANCELLING:
            reporter.report_state(JobState.CANCELLED)
            return NeverStartedJob()
    return what.result()
