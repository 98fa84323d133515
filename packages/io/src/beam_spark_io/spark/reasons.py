"""What Spark reports of a failure, in a line."""

from __future__ import annotations

_TRACEBACK = "Traceback (most recent call last):"


def reason_of(failure: BaseException) -> str:
    """Returns what Spark says of a failure, in a line: the bridge to Java begins with what was called.

    Of a Python worker that raised, Spark's first line ends where the traceback begins. The error at
    the traceback's end follows then.
    """
    java = getattr(failure, "java_exception", None)
    text = str(java.toString() if java is not None else failure).strip()
    if not text:
        return type(failure).__name__
    line = text.splitlines()[0]
    error = error_of_worker(text) if line.endswith(_TRACEBACK) else ""
    return f"{line.removesuffix(_TRACEBACK)}{error}" if error else line


def error_of_worker(text: str) -> str:
    """Returns the error of a Python worker in what Spark says of it; empty if it was none."""
    _, _, traceback = text.rpartition(_TRACEBACK)
    lines = traceback.splitlines()[1:]
    return next((line.strip() for line in lines if line.strip() and not line[0].isspace()), "")
