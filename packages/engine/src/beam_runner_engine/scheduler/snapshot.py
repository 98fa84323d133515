"""Snapshots: the scheduler as bytes that another version refuses instead of misreading them.

A snapshot is a header of magic, format, layout and checksum, and a pickle. The layout is a digest
of the fields of every record that can be in the pickle, so that a version in which any of them
differs can't take it for its own. It is for processes of one version; a host that is to go on with a later
one keeps the scheduler's `state` in a form of its own.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import inspect
import pickle
import struct
import zlib
from types import ModuleType

import attrs

from beam_runner_engine.scheduler import (
    commands,
    data,
    events,
    graph,
    minima,
    policy,
    specs,
    state,
    transitions,
)
from beam_runner_engine.scheduler.errors import SnapshotError
from beam_runner_engine.scheduler.state import SchedulerState
from beam_runner_engine.values import facts, summary, window_fns, windows

FORMAT = 1
"""Goes up when the meaning of the state changes while its fields stay the same."""

_MAGIC = b"beam-runner-engine/scheduler\n"
_HEADER = struct.Struct(">H16sIQ")
_RECORDS: tuple[ModuleType, ...] = (
    commands,
    data,
    events,
    facts,
    graph,
    minima,
    policy,
    specs,
    state,
    summary,
    transitions,
    window_fns,
    windows,
)


@functools.cache
def layout() -> bytes:
    """Returns a digest of the names and fields of all records a snapshot may hold."""
    lines = []
    for module in _RECORDS:
        for name, kind in sorted(inspect.getmembers(module, inspect.isclass)):
            if kind.__module__ != module.__name__:
                continue
            if attrs.has(kind):
                members = [f"{field.name}:{field.type}" for field in attrs.fields(kind)]
            elif issubclass(kind, enum.Enum):
                members = [f"{member.name}={member.value}" for member in kind]
            else:
                continue
            lines.append(f"{module.__name__}.{name}({', '.join(members)})")
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=16).digest()


def write_snapshot(scheduler_state: SchedulerState) -> bytes:
    """Returns a state as bytes. References and policies in it are pickled as they are."""
    payload = pickle.dumps(scheduler_state, protocol=5)
    header = _HEADER.pack(FORMAT, layout(), zlib.crc32(payload), len(payload))
    return _MAGIC + header + payload


def read_snapshot(snapshot: bytes) -> SchedulerState:
    """Returns the state in a snapshot; SnapshotError says why it can't be read."""
    start = len(_MAGIC) + _HEADER.size
    if not snapshot.startswith(_MAGIC) or len(snapshot) < start:
        raise SnapshotError("these bytes are not a snapshot of a scheduler")
    version, written_layout, checksum, length = _HEADER.unpack_from(snapshot, len(_MAGIC))
    if version != FORMAT or written_layout != layout():
        raise SnapshotError(
            "the snapshot was written by another version of the scheduler, and only that can read it"
        )
    payload = snapshot[start:]
    if len(payload) != length or zlib.crc32(payload) != checksum:
        raise SnapshotError("the snapshot is damaged: its length or checksum is wrong")
    restored = pickle.loads(payload)
    if not isinstance(restored, SchedulerState):
        raise SnapshotError("the snapshot holds something else than a scheduler")
    return restored
