"""Observations of a running job that the Job API doesn't cover.

Times are wall-clock seconds since the Unix epoch, and durations are seconds, unless a field states
another unit.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TypeAlias

import attrs

from beam_runner_model.failures import FailedBundle
from beam_runner_model.jobs import JobState, StateEvent
from beam_runner_model.successions import Succession
from beam_runner_model.waits import Wait


@attrs.frozen
class JobTimes:
    """Times of a job: submission, start and end, in wall-clock seconds since the Unix epoch.

    Attributes:
        job_id: the ID of the job.
        submitted: the submission time; None if unknown.
        started: the time at which the job started running; None if it hasn't started.
        ended: the time at which the job reached a final state; None if it hasn't finished.
        error: the first line of the error, if the job failed.
        kept_until: the time at which the server deletes the state of the finished job; None if no
            state is stored.
        user: the name of the user who submitted the job; empty if unknown.
        predecessor: the ID of the job that this job replaced; empty if none.
        successor: the ID of the job that replaced this job; empty if none.
        program_kept_until: the time until which the server retains the program of the replaced job for
            a rollback; None if the server doesn't retain the program.
    """

    job_id: str
    submitted: float | None = None
    started: float | None = None
    ended: float | None = None
    error: str = ""
    kept_until: float | None = None
    user: str = ""
    predecessor: str = ""
    successor: str = ""
    program_kept_until: float | None = None

    @classmethod
    def from_states(
        cls,
        job_id: str,
        states: Iterable[StateEvent],
        last_error: str,
        user: str = "",
        succession: Succession | None = None,
    ) -> JobTimes:
        """Returns the times of a job.

        Args:
            job_id: the ID of the job.
            states: the state transitions of the job, oldest first, at least one.
            last_error: the error text, which the result includes only if the job failed.
            user: the name of the user who submitted the job.
            succession: the jobs before and after the job.
        """
        succession = succession or Succession()
        first: dict[JobState, float] = {}
        for event in states:
            first.setdefault(event.state, event.time)
        end = event if event.state.is_terminal else None
        return cls(
            job_id,
            first.get(JobState.STOPPED),
            first.get(JobState.RUNNING),
            None if end is None else end.time,
            last_error if event.state is JobState.FAILED else "",
            user=user,
            predecessor=succession.predecessor,
            successor=succession.successor,
            program_kept_until=succession.program_kept_until or None,
        )


class BundleProcessKind(enum.StrEnum):
    """Kind of process that runs the user code of a bundle."""

    PROCESS = "process"
    """The worker process."""
    HARNESS = "harness"
    """An SDK harness."""
    STARTING_HARNESS = "starting_harness"
    """An SDK harness that hasn't connected yet."""
    SECTION = "section"
    """Tasks of the cluster."""

    @classmethod
    def _missing_(cls, value: object) -> BundleProcessKind:
        return cls.PROCESS


@attrs.frozen
class ObservedBundle:
    """Attempt at a bundle that is running now. All durations are seconds.

    Attributes:
        stage: the ID of the stage.
        bundle: the number of the bundle.
        attempt: the number of the attempt.
        steps: the full names of the transforms in the stage.
        host: the machine of the process that runs the attempt.
        pid: the ID of the process that runs the attempt.
        seconds: the elapsed time of the attempt.
        still: the time since the attempt last made progress.
        fraction: the finished fraction of the input, from 0 to 1.
        where: the kind of process that runs the user code.
        silent: the time since the process last responded; 0 if the process responds.
        tasks: the number of tasks of the section.
        tasks_done: the number of finished tasks of the section.
    """

    stage: str
    bundle: int
    attempt: int
    steps: tuple[str, ...] = ()
    host: str = ""
    pid: int = 0
    seconds: float = 0.0
    still: float = 0.0
    fraction: float = 0.0
    where: BundleProcessKind = attrs.field(
        default=BundleProcessKind.PROCESS, converter=BundleProcessKind
    )
    silent: float = 0.0
    tasks: int = 0
    tasks_done: int = 0


@attrs.frozen
class Execution:
    """Current activity of a job: running attempts, failed bundles and waits.

    Attributes:
        bundles: the running attempts, longest-running first.
        failed: the bundles with failed attempts, most attempts first.
        waits: why stages of the job, or the whole job, wait. If a stage has many waits of one kind,
            only the first waits are listed.
        still: the time (seconds) since the last commit or reported progress. 0 while the job makes
            progress or waits only for a processing time.
        now: the processing time of the job (ms since the Unix epoch).
        interface: the URL of the cluster's web interface; empty if the cluster has none.
        slots: the number of bundles of the job that can use a core at once; 0 if unknown.
        busy_slots: the number of slots that run a bundle or task of the job.
    """

    bundles: tuple[ObservedBundle, ...] = ()
    failed: tuple[FailedBundle, ...] = ()
    waits: tuple[Wait, ...] = ()
    still: float = 0.0
    now: int = 0
    interface: str = ""
    slots: int = 0
    busy_slots: int = 0


SeriesPoint: TypeAlias = tuple[float, int, int, int, int]


@attrs.frozen
class StageTimeSeries:
    """History of a stage, with a point every few seconds for about an hour, oldest first.

    A point is a tuple of time (seconds since the Unix epoch), output watermark (event time, ms),
    pending input (bytes), running bundles and committed bundles.
    """

    stage: str
    points: tuple[SeriesPoint, ...] = ()


@attrs.frozen
class StackFrame:
    """Frame of a stack trace."""

    file: str
    line: int
    function: str
    code: str = ""


@attrs.frozen
class ThreadStack:
    """Current stack of a thread in a worker process, innermost frame last.

    Attributes:
        host: the machine of the process.
        pid: the ID of the process; 0 if unknown.
        thread: the name of the thread.
        frames: the stack frames.
        sdk: the environment of the SDK harness that owns the thread; empty for a process of the
            runner.
    """

    host: str
    pid: int
    thread: str
    frames: tuple[StackFrame, ...] = ()
    sdk: str = ""
