"""What a runner tells of a job that runs, beyond the Job API.

All times are wall-clock seconds since the epoch. All lengths of time are seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import attrs

from beam_runner_model.jobs import JobState, StateEvent


@attrs.frozen
class JobTimes:
    """When a job was submitted, came to run and ended, and the first line of the error it failed with.

    `kept_until` is the time at which the state of a job that has ended is removed; None if nothing is
    kept.
    """

    job_id: str
    submitted: float | None = None
    started: float | None = None
    ended: float | None = None
    error: str = ""
    kept_until: float | None = None

    @classmethod
    def of(cls, job_id: str, states: Iterable[StateEvent], last_error: str) -> JobTimes:
        """The times of a job with these states, oldest first, and this error, if it failed."""
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
        )


STARTING_HARNESS = "an SDK harness that is still being started"
"""Where the user code of a bundle will run, while that has not connected."""


@attrs.frozen
class RunningBundle:
    """An attempt at a bundle that runs now.

    - `steps`: the full names of the transforms in its stage.
    - `host`, `pid`: the process that runs it.
    - `seconds`: for how long it has run; `still` for how long it has come no further.
    - `fraction`: of its input that is done, from 0 to 1.
    - `where`: what runs its user code: `this process`, or `an SDK harness`; or `STARTING_HARNESS` while
      it waits for that.
    - `silent`: for how long the process has not answered; 0 if it does.
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
    where: str = ""
    silent: float = 0.0


@attrs.frozen
class FailedBundle:
    """A bundle that is not committed, and of which an attempt failed.

    - `steps`: the full names of the transforms in its stage.
    - `attempts`: how many attempts failed; one that found a neighbour unavailable isn't counted.
    - `kind`: the cause of the last failure, `USER_CODE`, `OUTSIDE` or `UNAVAILABLE`.
    - `step`: the full name of the transform that failed, empty if it isn't known.
    - `error`: what the last failure reported, in one line; `element`: the element, if it is known.
    - `neighbour`: the name of what is unavailable, if something is.
    - `away`: for how long the neighbour has been unavailable.
    - `next_in`: how long until the next attempt begins; None while it runs.
    """

    stage: str
    bundle: int
    steps: tuple[str, ...] = ()
    attempts: int = 0
    kind: str = ""
    step: str = ""
    error: str = ""
    element: str = ""
    neighbour: str = ""
    away: float = 0.0
    next_in: float | None = None


USER_CODE, OUTSIDE, UNAVAILABLE = "user code", "outside", "unavailable"
"""The causes of failures, as `FailedBundle.kind`."""


@attrs.frozen
class AwaitedNeighbour:
    """Something outside of the job that the whole job waits for.

    - `neighbour`: its name; `reason`: why it is unavailable, in one line.
    - `away`: for how long it has been unavailable.
    - `next_in`: how long until the runner tries again.
    """

    neighbour: str
    reason: str = ""
    away: float = 0.0
    next_in: float = 0.0


@attrs.frozen
class Execution:
    """What a job does now.

    - `bundles`: the attempts that run, those first that have run for longest.
    - `without_place`: how many bundles wait for a place on the cluster.
    - `interface`: the address of the cluster's own pages, empty where it has none.
    - `failed`: the bundles of which an attempt failed, those first that failed most often.
    - `neighbours`: what the whole job waits for.
    """

    bundles: tuple[RunningBundle, ...] = ()
    without_place: int = 0
    interface: str = ""
    failed: tuple[FailedBundle, ...] = ()
    neighbours: tuple[AwaitedNeighbour, ...] = ()


SeriesPoint: TypeAlias = tuple[float, int, int, int, int]


@attrs.frozen
class StageSeries:
    """How a stage has been getting on, a point every few seconds for an hour or so, oldest first.

    A point is: time, output watermark (event time in ms), bytes that waited for the stage, bundles
    that ran, and how many were committed by then.
    """

    stage: str
    points: tuple[SeriesPoint, ...] = ()


@attrs.frozen
class StackFrame:
    """A line of a stack."""

    file: str
    line: int
    function: str
    code: str = ""


@attrs.frozen
class ThreadStack:
    """What a thread of a worker process does at this moment, the innermost frame last.

    - `pid`: its process, 0 where that is not known.
    - `sdk`: the environment whose SDK harness it is in; empty for a process of the runner's own.
    """

    host: str
    pid: int
    thread: str
    frames: tuple[StackFrame, ...] = ()
    sdk: str = ""
