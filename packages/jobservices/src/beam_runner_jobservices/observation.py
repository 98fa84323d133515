"""What a runner can tell of a job beyond the Job API, as records, and as the JSON that carries them.

The service `beam_runner.observation.v1.JobObservation` stands beside the Job API on the same port. Its
requests and answers are JSON, so that neither side needs generated code; fields that a reader does not
know are left out, those that are missing have their defaults. A server without it answers
UNIMPLEMENTED.

| method | request | answer |
|---|---|---|
| `ListJobs` | `{}` | `{"jobs": [JobTimes]}` |
| `GetExecution` | `{"job_id": ...}` | `Execution` |
| `GetSeries` | `{"job_id": ...}` | `{"series": [StageSeries]}` |
| `GetErrors` | `{"job_id": ...}` | `Errors` |
| `GetLogs` | `{"job_id": ..., "query": LogQuery}` | `Logs` |
| `GetStacks` | `{"job_id": ...}` | `{"stacks": [ThreadStack]}` |

All times are wall-clock seconds since the epoch, lengths of time are seconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

import attrs

from .error_log import Errors, FailureGroup
from .failures import Failure, Frame
from .job_log import LogRecord, Logs
from .records import JobState, StateEvent

SERVICE = "beam_runner.observation.v1.JobObservation"

_Record = TypeVar("_Record", bound=attrs.AttrsInstance)


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


_PARTS: Mapping[tuple[type, str], type] = {
    (Execution, "bundles"): RunningBundle,
    (Execution, "failed"): FailedBundle,
    (Execution, "neighbours"): AwaitedNeighbour,
    (ThreadStack, "frames"): StackFrame,
    (Errors, "groups"): FailureGroup,
    (FailureGroup, "failure"): Failure,
    (Failure, "frames"): Frame,
    (Logs, "lines"): LogRecord,
}


def encode(value: Any) -> bytes:
    """JSON of a record, or of a mapping with records in it."""
    return json.dumps(value, default=lambda record: attrs.asdict(record, recurse=False)).encode()


def decode(data: bytes) -> Any:
    """What `encode` was given, with mappings in place of records.

    Raises:
        ValueError: it is no JSON.
    """
    return json.loads(data)


def record_of(kind: type[_Record], found: Mapping[str, Any]) -> _Record:
    """The record that a mapping describes.

    Raises:
        TypeError: a field without a default is missing.
    """
    values = {}
    for field in attrs.fields(kind):
        if field.name in found:
            value = found[field.name]
            part = _PARTS.get((kind, field.name))
            if part is not None and isinstance(value, Mapping):
                value = record_of(part, value)
            elif part is not None:
                value = tuple(record_of(part, one) for one in value)
            values[field.name] = _frozen(value)
    return kind(**values)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
