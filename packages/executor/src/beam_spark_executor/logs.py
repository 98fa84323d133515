"""The server's own log: lines on standard error, as text or as JSON."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Iterator


def configure(level: str, kind: str) -> None:
    """Sends the log of this process to standard error.

    ``level`` is ``debug``, ``info``, ``warning`` or ``error``; ``kind`` is ``text``, or ``json`` for
    one object per line with ``time`` (ISO 8601, UTC), ``level``, ``logger``, ``message`` and, after
    an error, ``traceback``.
    """
    handler = logging.StreamHandler()
    if kind == "json":
        handler.setFormatter(_Json())
    else:
        text = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s")
        text.datefmt = "%Y-%m-%dT%H:%M:%S"
        text.converter = time.gmtime
        handler.setFormatter(text)
    if level != "debug":
        handler.addFilter(_without_py4j)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


def _without_py4j(record: logging.LogRecord) -> bool:
    """Keeps back what Py4J logs, on the root logger too: whoever called it gets it as an exception."""
    return "py4j" not in record.pathname


@contextlib.contextmanager
def hushed() -> Iterator[None]:
    """Keeps back warnings while Beam is imported: it remarks on optional packages it misses."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
