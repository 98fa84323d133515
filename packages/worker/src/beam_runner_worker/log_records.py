"""Log records of user code and SDKs, in the form that the runner gets."""

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
    """One log record of user code or of an SDK.

    Attributes:
        severity: severity that the SDK sent.
        time_ms: milliseconds since the epoch.
        message: formatted text.
        trace: stack trace, or empty.
        transform_id: transform that was running, or empty.
        location: logger name, or file and line; may be empty.
    """

    severity: Severity = attrs.field(converter=Severity)
    time_ms: int
    message: str = attrs.field(converter=sanitize_text)
    trace: str = attrs.field(default="", converter=sanitize_text)
    transform_id: str = ""
    location: str = attrs.field(default="", converter=sanitize_text)
