"""Durations as users write them in flags and options."""

from __future__ import annotations

import re

_UNITS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def parse_duration(text: str) -> float:
    """Parses a duration in Go's format or in days, such as 90s or 1h30m, and returns seconds.

    Raises:
        ValueError: The text isn't a duration; the error says what to write.
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)(d|h|ms|m|s|us|ns)", text)
    if not parts or "".join(map("".join, parts)) != text:
        raise ValueError(f"expected a duration such as 90s or 1h30m, got {text!r}")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
