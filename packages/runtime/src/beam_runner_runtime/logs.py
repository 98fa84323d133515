"""The server's log: lines on standard error, as text or as JSON.

Clients choose the names of jobs and transforms, and the log contains these names. So each record is
one line, and the lines of a traceback are indented. This prevents a client from forging log
records.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Iterator
from typing import Any


def configure_logging(level: str, kind: str) -> None:
    """Sends the log of this process to standard error.

    ``level`` is ``debug``, ``info``, ``warning`` or ``error``. ``kind`` is ``text`` or ``json``.
    With ``json`` each line is one object with ``time`` (ISO 8601, UTC), ``level``, ``logger``,
    ``msg``, ``source`` and, after an error, ``traceback``. Prism uses the same fields, so Beam's
    SDKs can read them.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonFormatter() if kind == "json" else _TextFormatter())
    handler.addFilter(_is_not_py4j)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def escape_unprintable(text: str) -> str:
    """Returns ``text`` as one line, with escapes for all characters that aren't printable.

    For example, line breaks, control characters and marks that change the writing direction become
    ``\\n``, ``\\x1b`` and ``\\u202e``.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def _is_not_py4j(record: logging.LogRecord) -> bool:
    """Filters log records: returns False for records of Py4J, even if it uses the root logger.

    Py4J's callers get errors as exceptions, and its debug records contain the secret of its
    connection.
    """
    return "py4j" not in record.pathname


@contextlib.contextmanager
def suppress_import_warnings() -> Iterator[None]:
    """Suppresses the warnings about missing optional packages that Beam logs during its import.

    Removes the handler that Python's ``logging`` adds for such a warning. Otherwise all later
    records would go through that handler.
    """
    root = logging.getLogger()
    before = list(root.handlers)
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        for handler in root.handlers[:]:
            if handler not in before:
                root.removeHandler(handler)


class _TextFormatter(logging.Formatter):
    def __init__(self) -> None:
        pattern = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s"
        super().__init__(pattern, datefmt="%Y-%m-%dT%H:%M:%S")
        self.converter = time.gmtime

    def formatMessage(self, record: logging.LogRecord) -> str:
        return escape_unprintable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        return _indent_lines(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:
        return _indent_lines(super().formatStack(stack_info))


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "msg": record.getMessage(),
            "source": {
                "function": record.funcName,
                "file": record.pathname,
                "line": record.lineno,
            },
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        text = json.dumps(line, ensure_ascii=False)
        # Don't escape printable text, because JSON would escape characters beyond 16 bits as two escapes.
        return text if text.isprintable() else json.dumps(line)


def _indent_lines(text: str) -> str:
    return "\n".join(f"  {escape_unprintable(line)}" for line in text.split("\n"))
