"""Formatting of texts and numbers for display. Users' texts are sanitized in this module."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
# Match control characters, and characters that change the direction of text, because they could
# hide the real text.
_HIDDEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)
_LONGEST = 4_000

MAX_TIMESTAMP = 9_223_372_036_854_775
"""Beam's maximum timestamp in ms. Beam's minimum timestamp is the negative value."""
_DAY = 86_400_000
_NOW_SECONDS = 0.5


def sanitize_for_display(text: str, limit: int = _LONGEST) -> str:
    """Returns `text` without terminal escapes, truncated to `limit`. Shows each hidden character as
    its code.
    """
    left_out = len(text) - limit
    if left_out > 0:
        text = text[:limit]
    text = _ESCAPES.sub("", text).replace("\r\n", "\n")
    text = _HIDDEN.sub(lambda found: f"‹{ord(found[0]):04X}›", text)
    text = text.encode("utf-8", "replace").decode("utf-8")
    return f"{text} … ({format_count(left_out)} more characters)" if left_out > 0 else text


def truncate_to_line(text: str, limit: int = 200) -> str:
    """Returns the first line of `text`, truncated to `limit` characters."""
    first = text.strip().partition("\n")[0]
    return first if len(first) <= limit else first[: limit - 1] + "…"


def format_count(value: float | None) -> str:
    """Returns a count as text, such as `1,234`, `34.5 k` or `1.20 M`; `–` for None."""
    if value is None:
        return "–"
    size = abs(value)
    if size < 10_000:
        return f"{value:,.0f}" if size >= 100 or value == int(value) else f"{value:,.1f}"
    for unit, scale in (("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12)):
        if size < scale * 1000 or unit == "T":
            scaled = value / scale
            return f"{scaled:,.{2 if abs(scaled) < 10 else 1 if abs(scaled) < 100 else 0}f} {unit}"
    return f"{value:,.0f}"


def format_exact_number(value: float | None) -> str:
    """Returns a number with all its digits."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def format_size(value: float | None) -> str:
    """Returns a number of bytes as text, such as `3.1 MB`."""
    if value is None:
        return "–"
    for unit in ("B", "KB", "MB", "GB"):
        if abs(value) < 1000:
            return (
                f"{value:.0f} {unit}" if unit == "B" or abs(value) >= 100 else f"{value:.1f} {unit}"
            )
        value /= 1000
    return f"{value:.1f} TB"


def format_duration(seconds: float | None) -> str:
    """Returns a duration as text, such as `0.4 s`, `12 s`, `3 min 20 s` or `2 h 5 min`."""
    if seconds is None:
        return "–"
    seconds = max(0.0, seconds)
    if seconds < 0.05:
        return "< 0.1 s" if seconds else "0 s"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest and minutes < 10 else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def format_short_duration(seconds: float | None) -> str:
    """Returns a duration as text, below a second in a smaller unit, such as `35 ms` or `80 µs`."""
    if seconds is None or not 0 < seconds < 0.9995:
        return format_duration(seconds)
    msecs = seconds * 1000
    if msecs < 0.9995:
        return f"{msecs * 1000:.0f} µs"
    return f"{msecs:.1f} ms" if msecs < 9.95 else f"{msecs:.0f} ms"


def format_core_time(seconds: float) -> str:
    """Returns the time for which slots were used as text, such as `1.25 core-hours` or `42 core-seconds`."""
    if seconds < 360:
        return f"{seconds:.{0 if seconds >= 10 else 1}f} core-seconds"
    hours = seconds / 3600
    return f"{hours:,.{2 if hours < 10 else 1 if hours < 100 else 0}f} core-hours"


def format_age(moment: float, now: float) -> str:
    """Returns the time since `moment` as text in one unit, such as `12 min ago`."""
    seconds = max(0.0, now - moment)
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit} ago"
    return "just now"


def format_percentage(share: float | None) -> str:
    """Returns a fraction from 0 to 1 as a percentage, such as `83 %`."""
    if share is None:
        return "–"
    return "< 1 %" if 0 < share < 0.01 else f"{share * 100:.0f} %"


def format_iso_seconds(seconds: float) -> str:
    """Returns wall-clock seconds since the epoch as ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def format_utc_time(seconds: float) -> str:
    """Returns wall-clock seconds as a date and a time in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def is_min_timestamp(watermark: int | None) -> bool:
    """Returns whether an event time (ms) is Beam's minimum timestamp."""
    return watermark is not None and watermark <= -MAX_TIMESTAMP + _DAY


def is_max_timestamp(watermark: int | None) -> bool:
    """Returns whether an event time (ms) is Beam's maximum timestamp, or the end of the global window."""
    return watermark is not None and watermark >= MAX_TIMESTAMP - _DAY


def format_watermark(value: int | None, now: float) -> str:
    """Returns the lag of a watermark (ms) as text, such as `12 s behind`; `start` or `end` for the
    bounds of event time.
    """
    if value is None:
        return "–"
    if is_min_timestamp(value):
        return "start"
    if is_max_timestamp(value):
        return "end"
    behind = now - value / 1000
    if abs(behind) < _NOW_SECONDS:
        return "up to date"
    return (
        f"{format_duration(behind)} behind" if behind >= 0 else f"{format_duration(-behind)} ahead"
    )
