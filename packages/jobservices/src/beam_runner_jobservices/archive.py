"""Compressed form of a finished job, which needs a fiftieth of the memory of a running job."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import attrs
from beam_runner_model.jobs import Importance, JobMessage, JobMetrics, JobState, StateEvent
from beam_runner_model.observation import StageTimeSeries
from beam_runner_model.successions import Succession

from beam_runner_jobservices.error_log import JobErrors
from beam_runner_jobservices.errors import DamagedData
from beam_runner_jobservices.history import Entry
from beam_runner_jobservices.message_records import decode_record, encode_record
from beam_runner_jobservices.observation_json import make_record
from beam_runner_jobservices.texts import format_exception
from beam_runner_jobservices.wire.jobs import deserialize_metrics, serialize_metrics

_FORM = 1
_LEVEL = 3
"""Compression level for zlib. Compared with the best level, this level saves three quarters as much
in a third of the time.
"""


@attrs.frozen
class Archive:
    """A finished job: its pipeline, its states and messages (oldest first), and its final metrics.

    Attributes:
        errors: the errors of messages that the server has dropped.
        series: the history of the job's stages.
        succession: the jobs before and after the job.
    """

    pipeline: bytes = attrs.field(repr=False)
    entries: tuple[Entry, ...] = attrs.field(repr=False)
    metrics: JobMetrics = attrs.field(repr=False)
    errors: JobErrors = attrs.field(factory=JobErrors, repr=False)
    series: tuple[StageTimeSeries, ...] = attrs.field(default=(), repr=False)
    succession: Succession = attrs.field(factory=Succession)


def pack_archive(archive: Archive) -> bytes:
    """Returns the encoded archive, which begins with a checksum of the other bytes."""
    content = {
        "form": _FORM,
        "pipeline": base64.b64encode(archive.pipeline).decode(),
        "metrics": base64.b64encode(serialize_metrics(archive.metrics)).decode(),
        "entries": [_encode_entry(entry) for entry in archive.entries],
        "errors": attrs.asdict(archive.errors),
        "series": [attrs.asdict(one) for one in archive.series],
        "succession": attrs.asdict(archive.succession),
    }
    packed = zlib.compress(json.dumps(content, ensure_ascii=False).encode(), _LEVEL)
    return zlib.crc32(packed).to_bytes(4, "big") + packed


def unpack_archive(data: bytes) -> Archive:
    """Returns the archive that `pack_archive` encoded.

    Raises:
        DamagedData: the bytes are not a result of `pack_archive`.
    """
    if zlib.crc32(data[4:]).to_bytes(4, "big") != data[:4]:
        raise DamagedData("the checksum doesn't match")
    try:
        content = json.loads(zlib.decompress(data[4:]))
        return Archive(
            base64.b64decode(content["pipeline"]),
            tuple(_decode_entry(row) for row in content["entries"]),
            deserialize_metrics(base64.b64decode(content["metrics"])),
            make_record(JobErrors, content["errors"]),
            tuple(make_record(StageTimeSeries, one) for one in content["series"]),
            make_record(Succession, content.get("succession", {})),
        )
    except (zlib.error, ValueError, TypeError, LookupError) as error:
        raise DamagedData(format_exception(error)) from error


def _encode_entry(entry: Entry) -> list[Any]:
    if isinstance(entry, StateEvent):
        return [entry.time, entry.state.value]
    row = [
        entry.time,
        int(entry.message_id),
        entry.importance.value,
        entry.text,
        entry.transform,
        entry.worker,
    ]
    return row if entry.record is None else [*row, encode_record(entry.record)]


def _decode_entry(row: list[Any]) -> Entry:
    if len(row) == 2:
        return StateEvent(JobState(row[1]), float(row[0]))
    time, number, importance, text, transform, worker, *record = row
    return JobMessage(
        str(int(number)),
        str(time),
        Importance(importance),
        str(text),
        str(transform),
        str(worker),
        decode_record(record[0]) if record else None,
    )
