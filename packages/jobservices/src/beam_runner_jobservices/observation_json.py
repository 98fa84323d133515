"""JSON encoding of requests and answers of the observation service.

The service `beam_runner.observation.v1.JobObservation` uses the same port as the Job API. Its
requests and answers are JSON, so that neither side needs generated code. Readers ignore unknown
fields, and use defaults for missing fields. A server without the service answers UNIMPLEMENTED.

| method | request | answer |
|---|---|---|
| `ListJobs` | `{}` | `{"jobs": [JobTimes]}` |
| `GetExecution` | `{"job_id": ...}` | `Execution` |
| `GetSeries` | `{"job_id": ...}` | `{"series": [StageTimeSeries]}` |
| `GetErrors` | `{"job_id": ...}` | `JobErrors` |
| `GetLogs` | `{"job_id": ..., "query": LogQuery}` | `LogAnswer` |
| `GetStacks` | `{"job_id": ...}` | `{"stacks": [ThreadStack]}` |
| `MakeSavepoint` | `{"job_id": ..., "url": ...}` | `Savepoint` |
| `RollBack` | `{"job_id": ..., "request": RollbackRequest}` | `{"job_id": ...}` of the new job |
| `ReplayQuarantine` | `{"job_id": ..., "url": ..., "expired": ...}` | `ReplayReport` |
| `GetPages` | `{}` | `{"url": ...}`, empty without web pages |
| `GetStory` | `{"job_id": ..., "bundle": ...}` | `BundleHistory` |
| `GetSuccession` | `{"job_id": ...}` | `Succession` |

All times are wall-clock seconds since the epoch, and durations are seconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

import attrs
import cattrs

SERVICE = "beam_runner.observation.v1.JobObservation"

_Record = TypeVar("_Record")
_CONVERTER = cattrs.Converter(detailed_validation=False)


def encode_json(value: Any) -> bytes:
    """Returns the JSON of a record, or of a mapping that contains records."""
    return json.dumps(value, default=lambda record: attrs.asdict(record, recurse=False)).encode()


def decode_json(data: bytes) -> Any:
    """Returns the value that `encode_json` encoded, with mappings in place of records.

    Raises:
        ValueError: the data is not JSON.
    """
    return json.loads(data)


def make_record(kind: type[_Record], found: Mapping[str, Any]) -> _Record:
    """Returns the record that a mapping describes.

    Raises:
        TypeError: A field without a default is missing, or a value has another type.
        ValueError: A value has another type.
        LookupError: The mapping isn't a mapping.
    """
    return _CONVERTER.structure(found, kind)
