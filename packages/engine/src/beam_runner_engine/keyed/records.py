"""Records: the engine's own plain values as bytes, marked with the version of their layout.

Only built-in types are written. Bytes of another version are refused, never misread.
"""

from __future__ import annotations

import pickle
from typing import Any

LAYOUT = 1
"""The version of the layout; it changes whenever what a record holds changes its meaning."""


def write_record(values: Any) -> bytes:
    """Returns the bytes of tuples and lists of numbers, strings, bytes, booleans and None.

    Equal values give equal bytes, if no string or bytes are in them twice.
    """
    return bytes((LAYOUT,)) + pickle.dumps(_unshared(values), protocol=5)


def read_record(data: bytes) -> Any:
    """Returns what `write_record` was given; ValueError if another version wrote it."""
    if not data or data[0] != LAYOUT:
        found = data[0] if data else "nothing"
        raise ValueError(f"keyed state was written with layout {found}, this engine reads {LAYOUT}")
    return pickle.loads(memoryview(data)[1:])


def _unshared(value: Any) -> Any:
    """Returns an equal value no two tuples or lists of which are one object.

    Pickling writes an object that it meets again as a reference, and whether two equal tuples are
    one object depends on what happened before.
    """
    if type(value) is tuple:
        return tuple([_unshared(part) for part in value])
    if type(value) is list:
        return [_unshared(part) for part in value]
    return value
