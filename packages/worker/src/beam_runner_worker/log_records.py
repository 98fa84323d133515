"""Log records: what user code and SDKs log, on its way to the host."""

from __future__ import annotations

import enum

import attrs
from beam_runner_model.texts import sanitize_text


class Severity(enum.IntEnum):
    """Severity of a log record, as in the Fn API's ``LogEntry.Severity``."""

    UNSPECIFIED = 0
    TRACE = 1
    DEBUG = 2
    INFO = 3
    NOTICE = 4
    WARN = 5
    ERROR = 6
    CRITICAL = 7


@attrs.frozen
class LogRecord:
    """A line that user code or an SDK logged.

    Attributes:
        severity: as the SDK said.
        time_ms: when, in milliseconds since the epoch.
        message: the text, formatted.
        trace: a stack trace, or empty.
        transform_id: the transform that was running, or empty.
        location: logger name or file and line, or empty.
    """

    severity: Severity = attrs.field(converter=Severity)
    time_ms: int
    message: str = attrs.field(converter=sanitize_text)
    trace: str = attrs.field(default="", converter=sanitize_text)
    transform_id: str = ""
    location: str = attrs.field(default="", converter=sanitize_text)
