"""Extraction of a one-line reason from Spark's error messages."""

from __future__ import annotations

_TRACEBACK = "Traceback (most recent call last):"


def find_failure_reason(failure: BaseException) -> str:
    """Returns Spark's message of a failure on one line, without the prefix of the Java bridge.

    If a Python worker raised an error, Spark's first line ends before the traceback. The result
    then also has the error at the end of the traceback.
    """
    java = getattr(failure, "java_exception", None)
    text = str(java.toString() if java is not None else failure).strip()
    if not text:
        return type(failure).__name__
    line = text.splitlines()[0]
    error = find_worker_error(text) if line.endswith(_TRACEBACK) else ""
    return f"{line.removesuffix(_TRACEBACK)}{error}" if error else line


def find_worker_error(text: str) -> str:
    """Returns the error of a Python worker in a message of Spark; empty if no worker raised an error."""
    _, _, traceback = text.rpartition(_TRACEBACK)
    lines = traceback.splitlines()[1:]
    return next((line.strip() for line in lines if line.strip() and not line[0].isspace()), "")
