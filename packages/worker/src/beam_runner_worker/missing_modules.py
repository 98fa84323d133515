"""What to do about a module that the pipeline needs and its workers don't have."""

from __future__ import annotations

import re
from collections.abc import Iterable

_MISSING = re.compile(r"\bModuleNotFoundError: No module named '(?P<name>[^']+)'")


def missing_module(lines: Iterable[str]) -> str | None:
    """The last of the lines that tells of a missing module, with what to do about it."""
    found = [line.strip() for line in lines if _MISSING.search(line)]
    return with_advice(found[-1]) if found else None


def with_advice(summary: str) -> str:
    """An exception in one line; where that is a missing module, with what to do about it."""
    missing = _MISSING.search(summary)
    if missing is None:
        return summary
    return (
        f"{summary}; {missing['name']!r} is not installed where the pipeline's code runs: send it along "
        "with --setup_file or --extra_package if it is yours, or --requirements_file if it is from an "
        "index; or run the code in the program that submits it, with --environment_type=LOOPBACK"
    )
