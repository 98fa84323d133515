"""Encoding of the machine-readable records that job messages contain in addition to their text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from beam_runner_model.failures import FailedBundle, JobFailure
from beam_runner_model.jobs import MessageRecord

from beam_runner_jobservices.observation_json import make_record
from beam_runner_jobservices.texts import truncate_middle

_KINDS: Mapping[str, type[FailedBundle] | type[JobFailure]] = {
    "failed_bundle": FailedBundle,
    "ending": JobFailure,
}
_LONGEST = 4 << 10
_MOST = 100


def truncate_record(record: MessageRecord) -> MessageRecord:
    """Returns a copy of a record. In the copy, texts have at most 4 KiB of characters, and lists
    have at most 100 items.
    """
    return None if record is None else _truncate_value(record)


def encode_record(record: MessageRecord) -> Any:
    """Returns a record as values that JSON supports."""
    kind = next((name for name, cls in _KINDS.items() if isinstance(record, cls)), "")
    return {"kind": kind, "record": attrs.asdict(record)} if record is not None else None


def decode_record(found: Any) -> MessageRecord:
    """Returns the record that `encode_record` encoded; None for kinds of other versions.

    Raises:
        TypeError: the data is not an encoded record.
        LookupError: the data is not an encoded record.
    """
    cls = None if found is None else _KINDS.get(found["kind"])
    return None if cls is None else make_record(cls, found["record"])


def _truncate_value(value: Any) -> Any:
    if isinstance(value, str):
        return type(value)(truncate_middle(value, _LONGEST))
    if isinstance(value, tuple):
        return tuple(map(_truncate_value, value[:_MOST]))
    if attrs.has(type(value)):
        names = (field.name for field in attrs.fields(type(value)))
        return attrs.evolve(
            value, **{name: _truncate_value(getattr(value, name)) for name in names}
        )
    return value
