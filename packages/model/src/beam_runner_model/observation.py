"""What a runner tells of a job that runs, beyond the Job API.

All times are wall-clock seconds since the epoch. All lengths of time are seconds.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TypeAlias

import attrs

from beam_runner_model.failures import FailedBundle
from beam_runner_model.jobs import JobState, StateEvent
from beam_runner_model.waits import Wait


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


class BundlePlace(enum.StrEnum):
    """What runs the user code of a bundle."""

    PROCESS = "process"
    """The worker process itself."""
    HARNESS = "harness"
    """An SDK harness."""
    STARTING_HARNESS = "starting_harness"
    """An SDK harness that has not connected yet."""
    SECTION = "section"
    """Tasks of the cluster."""

    @classmethod
    def _missing_(cls, value: object) -> BundlePlace:
        return cls.PROCESS


@attrs.frozen
class ObservedBundle:
    """An attempt at a bundle that runs now.

    - `steps`: the full names of the transforms in its stage.
    - `host`, `pid`: the process that runs it.
    - `seconds`: for how long it has run; `still` for how long it has come no further.
    - `fraction`: of its input that is done, from 0 to 1.
    - `where`: what runs its user code.
    - `silent`: for how long the process has not answered; 0 if it does.
    - `tasks`: how many tasks its section has, and `tasks_done` how many of them have ended.
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
    where: BundlePlace = attrs.field(default=BundlePlace.PROCESS, converter=BundlePlace)
    silent: float = 0.0
    tasks: int = 0
    tasks_done: int = 0


@attrs.frozen
class Execution:
    """What a job does now.

    - `bundles`: the attempts that run, those first that have run for longest.
    - `failed`: the bundles of which an attempt failed, those first that failed most often.
    - `waits`: what parts of the job wait for; of many waits of one kind in a stage only the first are here.
    - `still`: for how long nothing has been committed, and no bundle has told of progress; 0 while the
      job moves, or waits for the clock alone.
    - `now`: the processing time of the job (ms).
    - `interface`: the address of the cluster's own pages, empty where it has none.
    """

    bundles: tuple[ObservedBundle, ...] = ()
    failed: tuple[FailedBundle, ...] = ()
    waits: tuple[Wait, ...] = ()
    still: float = 0.0
    now: int = 0
    interface: str = ""


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
