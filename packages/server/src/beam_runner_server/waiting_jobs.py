"""Jobs that wait for their platform, which may take minutes. A job that is cancelled meanwhile ends."""

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
class NeverBegun(JobHandle):
    """The handle of a job that never ran on this server."""

    def cancel(self) -> None:
        """Does nothing, because the job has ended."""

    def drain(self) -> None:
        """Does nothing, because the job has ended."""

    def metrics(self) -> JobMetrics:
        """Returns no metrics."""
        return JobMetrics()


def awaited(
    what: Future[_T], state: Callable[[], JobState], reporter: JobReporter
) -> _T | NeverBegun:
    """Returns what a job waits for, once it exists. Ends the job if it is cancelled before.

    Args:
        what: the awaited object.
        state: the state of the job.
        reporter: receives the end.

    Raises:
        Exception: the object will never exist.
    """
    while not wait([what], _LOOK_SECONDS).done:
        if state() is JobState.CANCELLING:
            reporter.state(JobState.CANCELLED)
            return NeverBegun()
    return what.result()
