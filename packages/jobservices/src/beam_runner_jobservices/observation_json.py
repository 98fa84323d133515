"""The JSON that carries the records of `beam_runner_model.observation`.

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
| `GetStory` | `{"job_id": ..., "bundle": ...}` | `BundleStory` |

All times are wall-clock seconds since the epoch, lengths of time are seconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

import attrs
from beam_runner_model.failures import Ending, FailedBundle
from beam_runner_model.observation import Execution, RunningBundle, StackFrame, ThreadStack
from beam_runner_model.stories import BundleStory, DataPiece, StoryStep
from beam_runner_model.waits import Wait

from beam_runner_jobservices.error_log import Errors, FailureGroup
from beam_runner_jobservices.failures import Failure, Frame
from beam_runner_jobservices.job_log import LogRecord, Logs

SERVICE = "beam_runner.observation.v1.JobObservation"

_Record = TypeVar("_Record", bound=attrs.AttrsInstance)

_PARTS: Mapping[tuple[type, str], type] = {
    (Execution, "bundles"): RunningBundle,
    (Execution, "failed"): FailedBundle,
    (Execution, "waits"): Wait,
    (Ending, "failure"): FailedBundle,
    (Ending, "waits"): Wait,
    (ThreadStack, "frames"): StackFrame,
    (Errors, "groups"): FailureGroup,
    (Errors, "last_warning"): LogRecord,
    (FailureGroup, "failure"): Failure,
    (Failure, "frames"): Frame,
    (Logs, "lines"): LogRecord,
    (BundleStory, "happened"): StoryStep,
    (StoryStep, "reads"): DataPiece,
    (StoryStep, "writes"): DataPiece,
    (StoryStep, "failure"): FailedBundle,
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
            elif part is not None and value is not None:
                value = tuple(record_of(part, one) for one in value)
            values[field.name] = _frozen(value)
    return kind(**values)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
