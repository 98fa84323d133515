"""Elements that SDKs have sampled, as texts: decoded by Beam's own simple coders, and by no user's.

A user's coder may be any code, and what it would decode any bytes; so what is in none of the simple
coders is shown as bytes are written in Python.
"""

from __future__ import annotations

from beam_runner_jobservices.metric_values import BROKEN, Payload
from beam_runner_model.jobs import MonitoringInfo

URN = "beam_runner_worker:sampled_elements:v1"
_MOST = 10
_LONGEST_BYTES = 200
_LONGEST_TEXT = 400


def samples_of(info: MonitoringInfo) -> tuple[bytes, ...]:
    """The encoded elements of a metric of this URN, oldest first; none where it is broken."""
    try:
        data = Payload(info.payload)
        return tuple(data.piece() for _ in range(data.count()))[-_MOST:]
    except BROKEN:
        return ()


def shown(element: bytes, coder: str) -> str:
    """An element as text; `coder` is in the words of `describe_pipeline`, as in `kv<bytes, varint>`."""
    data = Payload(element)
    try:
        text = _read(coder, data)
    except BROKEN:
        return _bytes(element)
    if not data.is_over:
        return _bytes(element)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


def _read(coder: str, data: Payload) -> str:
    """The text of what comes next.

    Raises:
        LookupError: the coder is none of the simple ones; or as `BROKEN` says.
    """
    name, _, inner = coder.partition("<")
    match name:
        case "bytes":
            return _bytes(data.piece())
        case "string_utf8":
            return repr(data.piece().decode())
        case "varint":
            return str(data.varint())
        case "bool":
            return str(data.varint() == 1)
        case "double":
            return repr(data.double())
        case "kv":
            key, value = _two(inner.removesuffix(">"))
            return f"{_read(key, data)}: {_read(value, data)}"
        case _:
            raise LookupError(coder)


def _two(parts: str) -> tuple[str, str]:
    """The two coders in `a, b`, either of which may have parts of its own."""
    depth = 0
    for at, character in enumerate(parts):
        depth += {"<": 1, ">": -1}.get(character, 0)
        if character == "," and not depth:
            return parts[:at], parts[at + 1 :].strip()
    raise LookupError(parts)


def _bytes(data: bytes) -> str:
    return repr(data[:_LONGEST_BYTES]) + ("…" if len(data) > _LONGEST_BYTES else "")
