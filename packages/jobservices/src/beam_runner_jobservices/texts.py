"""Texts prepared for transport: truncated, valid UTF-8, and small enough for a gRPC status."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote

_STATUS_BYTES = 6_000
"""The maximum size of a status text in bytes. gRPC percent-encodes the text in HTTP/2 trailers.
Clients accept up to 8 KiB of trailers in total.
"""


def truncate_middle(text: str, limit: int) -> str:
    """Returns `text` as valid Unicode. If the text is longer than `limit`, returns its start, a
    note about the omitted middle, and its end.
    """
    text = text.encode("utf-8", "replace").decode("utf-8")
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n... ({len(text) - 2 * half} characters omitted) ...\n{text[-half:]}"


def fit_status_text(text: str) -> str:
    """Returns `text`, shortened if the text is too long for a gRPC status."""
    limit = len(text)
    while len(quote(shortened := truncate_middle(text, limit))) > _STATUS_BYTES:
        limit = min(limit * 3 // 4, _STATUS_BYTES)
    return shortened


def format_iso_time(seconds: float) -> str:
    """Returns wall-clock seconds since the epoch as ISO 8601 in UTC with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def parse_iso_time(text: str) -> float | None:
    """Returns the wall-clock seconds of an ISO time, by default in UTC; None if the text isn't an ISO time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def format_exception(error: BaseException) -> str:
    """Returns the exception's type and text on one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
