"""The stored form of the records that messages of a job carry with their text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from beam_runner_model.failures import Ending, FailedBundle
from beam_runner_model.jobs import MessageRecord

from beam_runner_jobservices.observation_json import record_of
from beam_runner_jobservices.texts import cut

_KINDS: Mapping[str, type[FailedBundle] | type[Ending]] = {
    "failed_bundle": FailedBundle,
    "ending": Ending,
}
_LONGEST = 4 << 10
_MOST = 100


def fit(record: MessageRecord) -> MessageRecord:
    """Returns a record with its texts truncated to 4 KiB of characters, and its lists to 100 items."""
    return None if record is None else _fit(record)


def plain(record: MessageRecord) -> Any:
    """Returns a record as values that JSON supports."""
    kind = next((name for name, cls in _KINDS.items() if isinstance(record, cls)), "")
    return {"kind": kind, "record": attrs.asdict(record)} if record is not None else None


def of_plain(found: Any) -> MessageRecord:
    """Returns the record that `plain` encoded; None for kinds of other versions.

    Raises:
        TypeError: the data is not an encoded record.
        LookupError: the data is not an encoded record.
    """
    cls = None if found is None else _KINDS.get(found["kind"])
    return None if cls is None else record_of(cls, found["record"])


def _fit(value: Any) -> Any:
    if isinstance(value, str):
        return type(value)(cut(value, _LONGEST))
    if isinstance(value, tuple):
        return tuple(map(_fit, value[:_MOST]))
    if attrs.has(type(value)):
        names = (field.name for field in attrs.fields(type(value)))
        return attrs.evolve(value, **{name: _fit(getattr(value, name)) for name in names})
    return value
