"""The server's own log: lines on standard error, as text or as JSON.

Clients name jobs and transforms, and what they name is logged: a record is one line, and what lines
follow it, of a traceback, are indented, so that nobody's text passes for a record of ours.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Iterator
from typing import Any


def configure(level: str, kind: str) -> None:
    """Sends the log of this process to standard error.

    ``level`` is ``debug``, ``info``, ``warning`` or ``error``; ``kind`` is ``text``, or ``json`` for
    one object per line with ``time`` (ISO 8601, UTC), ``level``, ``logger``, ``msg``, ``source`` and,
    after an error, ``traceback``: as Prism writes them, so that Beam's SDKs can read them.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_Json() if kind == "json" else _Text())
    handler.addFilter(_without_py4j)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def printable(text: str) -> str:
    """``text`` on one line that shows all that is in it: line breaks, control characters, marks that
    change the direction of writing and all else without a shape of its own as ``\\n``, ``\\x1b``,
    ``\\u202e``.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _without_py4j(record: logging.LogRecord) -> bool:
    """Keeps back what Py4J logs, on the root logger too: whoever called it gets errors as exceptions,
    and what it logs for debugging has the secret of its connection in it.
    """
    return "py4j" not in record.pathname


@contextlib.contextmanager
def hushed() -> Iterator[None]:
    """Keeps back warnings while Beam is imported: it remarks on optional packages it misses.

    And the handler that Python's ``logging`` makes for such a remark: all would be logged by it.
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


class _Text(logging.Formatter):
    def __init__(self) -> None:
        pattern = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s"
        super().__init__(pattern, datefmt="%Y-%m-%dT%H:%M:%S")
        self.converter = time.gmtime

    def formatMessage(self, record: logging.LogRecord) -> str:
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:
        return _indented(super().formatStack(stack_info))


class _Json(logging.Formatter):
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
        # JSON knows escapes of 16 bits only; what is printable stays as it is.
        return text if text.isprintable() else json.dumps(line)


def _indented(text: str) -> str:
    return "\n".join(f"  {printable(line)}" for line in text.split("\n"))
