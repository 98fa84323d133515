"""Conversion of sampled elements to text, for elements with Beam's simple coders.

A user's coder can run arbitrary code, so the server doesn't call it: elements with other coders are
shown as Python bytes literals.
"""

from __future__ import annotations

from beam_runner_model.jobs import MetricCell

from beam_runner_jobservices.metric_values import BROKEN, PayloadReader

URN = "beam_runner_worker:sampled_elements:v1"
_MOST = 10
_LONGEST_BYTES = 200
_LONGEST_TEXT = 400


def decode_samples(info: MetricCell) -> tuple[bytes, ...]:
    """Returns the encoded elements of a metric of this URN, oldest first; none if the payload is malformed."""
    try:
        data = PayloadReader(info.payload)
        return tuple(data.read_bytes() for _ in range(data.read_count()))[-_MOST:]
    except BROKEN:
        return ()


def format_sample(element: bytes, coder: str) -> str:
    """Returns an element as text; `coder` is in the form of `describe_pipeline`, such as `kv<bytes, varint>`."""
    data = PayloadReader(element)
    try:
        text = _read_value(coder, data)
    except BROKEN:
        return _format_bytes(element)
    if not data.is_at_end:
        return _format_bytes(element)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


def _read_value(coder: str, data: PayloadReader) -> str:
    """Reads the next value with a simple coder, and returns the value as text for display.

    Raises:
        LookupError: the coder isn't one of the simple coders; or an error of `BROKEN`.
    """
    name, _, inner = coder.partition("<")
    match name:
        case "bytes":
            return _format_bytes(data.read_bytes())
        case "string_utf8":
            return repr(data.read_bytes().decode())
        case "varint":
            return str(data.read_varint())
        case "bool":
            return str(data.read_varint() == 1)
        case "double":
            return repr(data.read_double())
        case "kv":
            key, value = _split_component_coders(inner.removesuffix(">"))
            return f"{_read_value(key, data)}: {_read_value(value, data)}"
        case _:
            raise LookupError(coder)


def _split_component_coders(parts: str) -> tuple[str, str]:
    """Returns the two coders in the text `a, b`. Each coder may have component coders."""
    depth = 0
    for at, character in enumerate(parts):
        depth += {"<": 1, ">": -1}.get(character, 0)
        if character == "," and not depth:
            return parts[:at], parts[at + 1 :].strip()
    raise LookupError(parts)


def _format_bytes(data: bytes) -> str:
    return repr(data[:_LONGEST_BYTES]) + ("…" if len(data) > _LONGEST_BYTES else "")
