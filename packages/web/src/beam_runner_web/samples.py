"""Elements that SDKs have sampled, as texts: decoded by Beam's own simple coders, and by no user's.

A user's coder may be any code, and what it would decode any bytes; so what is in none of the simple
coders is shown as bytes are written in Python.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from beam_runner_jobservices import MonitoringInfo

URN = "beam_runner_worker:sampled_elements:v1"
_COUNT_BYTES = 4
_MOST = 10
_LONGEST_BYTES = 200
_LONGEST_TEXT = 400


class _CannotRead(Exception):
    """The bytes are not in this coder, or it is none of the simple ones."""


def samples_of(info: MonitoringInfo) -> tuple[bytes, ...]:
    """The encoded elements of a metric of this URN, oldest first; none where it is broken."""
    try:
        return tuple(_elements(info.payload))[-_MOST:]
    except (_CannotRead, IndexError, struct.error):
        return ()


def shown(element: bytes, coder: str) -> str:
    """An element as text; `coder` is in the words of `describe_pipeline`, as in `kv<bytes, varint>`."""
    try:
        text, rest = _read(coder, element)
    except (_CannotRead, IndexError, struct.error, UnicodeDecodeError):
        return _bytes(element)
    if rest:
        return _bytes(element)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


def _elements(payload: bytes) -> Iterator[bytes]:
    (count,) = struct.unpack_from(">i", payload)
    rest = payload[_COUNT_BYTES:]
    if count < 0 or count > len(payload):
        raise _CannotRead
    for _ in range(count):
        element, rest = _delimited(rest)
        yield element


def _read(coder: str, data: bytes) -> tuple[str, bytes]:
    """The text of what stands first in `data`, and the rest."""
    name, _, inner = coder.partition("<")
    match name:
        case "bytes":
            found, rest = _delimited(data)
            return _bytes(found), rest
        case "string_utf8":
            found, rest = _delimited(data)
            return repr(found.decode("utf-8")), rest
        case "varint":
            number, rest = _varint(data)
            return str(number - (1 << 64) if number >> 63 else number), rest
        case "bool":
            return str(data[0] == 1), data[1:]
        case "double":
            return repr(struct.unpack_from(">d", data)[0]), data[8:]
        case "kv":
            key_coder, value_coder = _two(inner.removesuffix(">"))
            key, rest = _read(key_coder, data)
            value, rest = _read(value_coder, rest)
            return f"{key}: {value}", rest
        case _:
            raise _CannotRead


def _two(parts: str) -> tuple[str, str]:
    """The two coders in `a, b`, either of which may have parts of its own."""
    depth = 0
    for at, character in enumerate(parts):
        depth += {"<": 1, ">": -1}.get(character, 0)
        if character == "," and not depth:
            return parts[:at], parts[at + 1 :].strip()
    raise _CannotRead


def _delimited(data: bytes) -> tuple[bytes, bytes]:
    length, rest = _varint(data)
    if length > len(rest):
        raise _CannotRead
    return rest[:length], rest[length:]


def _varint(data: bytes) -> tuple[int, bytes]:
    value = 0
    for at in range(10):
        value |= (data[at] & 0x7F) << (7 * at)
        if data[at] < 0x80:
            return value, data[at + 1 :]
    raise _CannotRead


def _bytes(data: bytes) -> str:
    return repr(data[:_LONGEST_BYTES]) + ("…" if len(data) > _LONGEST_BYTES else "")
