"""Jobs that wait for what they are to run on, which may take minutes: one that is cancelled ends meanwhile."""

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
    """The handle of a job of which nothing runs, and nothing ever did in this server."""

    def cancel(self) -> None:
        """It has ended."""

    def drain(self) -> None:
        """It has ended."""

    def metrics(self) -> JobMetrics:
        """None."""
        return JobMetrics()


def awaited(
    what: Future[_T], state: Callable[[], JobState], reporter: JobReporter
) -> _T | NeverBegun:
    """What a job waits for, once it is there; where the job is cancelled before, it ends.

    Args:
        what: it waits for.
        state: of the job.
        reporter: is told of the end.

    Raises:
        Exception: there will be none.
    """
    while not wait([what], _LOOK_SECONDS).done:
        if state() is JobState.CANCELLING:
            reporter.state(JobState.CANCELLED)
            return NeverBegun()
    return what.result()
