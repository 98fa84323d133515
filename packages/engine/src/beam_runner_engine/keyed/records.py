"""Encoding of the engine's stored state: plain values as bytes, prefixed with a layout version.

Records contain only built-in types. Records of another version raise an error.
"""

from __future__ import annotations

import pickle
from typing import Any

LAYOUT = 1
"""Version of the layout; must change whenever the meaning of a record changes."""


def encode_record(values: Any) -> bytes:
    """Encodes tuples and lists of numbers, strings, bytes, booleans and None.

    Equal values have equal encodings, unless a string or bytes object occurs twice in a value.
    """
    return bytes((LAYOUT,)) + pickle.dumps(_copy_without_shared_objects(values), protocol=5)


def decode_record(data: bytes) -> Any:
    """Decodes a record that `encode_record` encoded.

    Raises:
        ValueError: If another layout version wrote the record.
    """
    if not data or data[0] != LAYOUT:
        found = data[0] if data else "nothing"
        raise ValueError(
            f"Can't read keyed state with layout {found}: this version reads layout {LAYOUT}"
        )
    return pickle.loads(memoryview(data)[1:])


def _copy_without_shared_objects(value: Any) -> Any:
    """Returns an equal value in which no two tuples or lists are the same object.

    Pickle writes the second occurrence of an object as a reference. Without shared objects, equal
    values always have the same pickle.
    """
    if type(value) is tuple:
        return tuple([_copy_without_shared_objects(part) for part in value])
    if type(value) is list:
        return [_copy_without_shared_objects(part) for part in value]
    return value
