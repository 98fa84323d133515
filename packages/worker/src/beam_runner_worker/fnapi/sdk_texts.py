"""Patches for Beam's Python harness, so that it sends only text that UTF-8 can encode.

The harness copies the texts of exceptions and log records into protocol buffers. If a text can't be
encoded, the runner gets no response, and the bundle never ends.
"""

from __future__ import annotations

import logging
import traceback
from typing import Any

from apache_beam.runners.worker import log_handler, sdk_worker
from beam_runner_model.texts import sanitize_text


class _Traceback:
    """Replacement for the module ``traceback`` that returns only texts that UTF-8 can encode."""

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)

    def format_exc(self, *arguments: Any, **named: Any) -> str:
        return sanitize_text(traceback.format_exc(*arguments, **named))

    def format_exception(self, *arguments: Any, **named: Any) -> list[str]:
        return [sanitize_text(line) for line in traceback.format_exception(*arguments, **named)]


def patch_sdk_texts() -> None:
    """Patches the harness classes of this process; must be called before the harness is created."""
    for module in (sdk_worker, log_handler):
        setattr(module, "traceback", _Traceback())  # noqa: B010
    handler = log_handler.FnApiLogRecordHandler
    usual = handler.format

    def format_sanitized(self: logging.Handler, record: logging.LogRecord) -> str:
        return sanitize_text(str(usual(self, record)))

    setattr(handler, "format", format_sanitized)  # noqa: B010
