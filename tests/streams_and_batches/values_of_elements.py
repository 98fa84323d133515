"""Values of elements that every operation can read, whatever the operation before returned."""

from __future__ import annotations

import zlib
from typing import Any


def number_of(value: Any) -> int:
    """Returns an integer that differs, most of the time, if the value differs."""
    match value:
        case bool() | None:
            return int(bool(value))
        case int():
            return value
        case float():
            return round(value * 1000)
        case list() | tuple():
            return sum((place + 1) * number_of(each) for place, each in enumerate(value)) % 100_003
    return zlib.crc32(repr(value).encode()) % 1000


def pair_of(element: tuple[str, Any]) -> tuple[str, int]:
    """Returns the key and the number of an element."""
    return element[0], number_of(element[1])
