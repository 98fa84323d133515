"""Texts made fit for the wire: cut to a length, valid UTF-8, small enough for a gRPC status."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote

_STATUS_BYTES = 6_000
"""gRPC carries a status's text percent-encoded in HTTP/2 trailers, of which clients accept 8 KiB in
all.
"""


def cut(text: str, limit: int) -> str:
    """`text` as valid Unicode, and where it is longer than `limit`, its start, its end, and what is
    missing between.
    """
    text = text.encode("utf-8", "replace").decode("utf-8")
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n... ({len(text) - 2 * half} characters left out) ...\n{text[-half:]}"


def status_text(text: str) -> str:
    """`text`, shortened where a gRPC status could not carry it."""
    limit = len(text)
    while len(quote(shortened := cut(text, limit))) > _STATUS_BYTES:
        limit = min(limit * 3 // 4, _STATUS_BYTES)
    return shortened


def iso_time(seconds: float) -> str:
    """Wall-clock seconds since the epoch as ISO 8601 in UTC with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def seconds_of(text: str) -> float | None:
    """The wall-clock seconds of an ISO time, in UTC unless it says otherwise; None where it is not one."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def one_line(error: BaseException) -> str:
    """The exception's type and text on one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
