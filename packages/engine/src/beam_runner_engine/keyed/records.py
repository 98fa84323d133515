"""Records: the engine's own plain values as bytes, marked with the version of their layout.

Only built-in types are written. Bytes of another version are refused, never misread. Equal values
give equal bytes, whatever objects they are made of, which pickling wouldn't.
"""

from __future__ import annotations

import marshal
from typing import Any

LAYOUT = 1
"""The version of the layout; it changes whenever what a record holds changes its meaning."""

_MARSHAL = 2
"""The last format of `marshal` without references to objects; every Python reads it."""


def write_record(values: Any) -> bytes:
    """Returns the bytes of tuples and lists of numbers, strings, bytes, booleans and None."""
    return bytes((LAYOUT,)) + marshal.dumps(values, _MARSHAL)


def read_record(data: bytes) -> Any:
    """Returns what `write_record` was given; ValueError if another version wrote it."""
    if not data or data[0] != LAYOUT:
        found = data[0] if data else "nothing"
        raise ValueError(f"keyed state was written with layout {found}, this engine reads {LAYOUT}")
    return marshal.loads(memoryview(data)[1:])
