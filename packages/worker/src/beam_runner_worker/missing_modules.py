"""Advice for modules that the pipeline needs and that its workers lack."""

from __future__ import annotations

import re
from collections.abc import Iterable

_ELSEWHERE = (
    "send it along with --setup_file or --extra_package if it is yours, or --requirements_file if it is "
    "from an index; or run the code in the program that submits it, with --environment_type=LOOPBACK"
)
_IN_A_POOL = (
    "workers of a pool install nothing for a job, so it has to be there before: in the Python of the "
    "pool's workers, which with --environment_type=LOOPBACK is that of the program that submits the pipeline"
)
_MISSING = re.compile(r"\bModuleNotFoundError: No module named '(?P<name>[^']+)'")


def missing_module(lines: Iterable[str], *, in_a_pool: bool = False) -> str | None:
    """Returns the last line that reports a missing module, with advice; None without such a line."""
    found = [line.strip() for line in lines if _MISSING.search(line)]
    return with_advice(found[-1], in_a_pool=in_a_pool) if found else None


def with_advice(summary: str, *, in_a_pool: bool = False) -> str:
    """Returns an exception in one line, with advice if a module is missing.

    Args:
        summary: the exception in one line.
        in_a_pool: whether the code ran in a worker of a pool; with LOOPBACK, the submitting program
            is such a pool.
    """
    missing = _MISSING.search(summary)
    if missing is None:
        return summary
    what_to_do = _IN_A_POOL if in_a_pool else _ELSEWHERE
    return f"{summary}; {missing['name']!r} is not installed where the pipeline's code runs: {what_to_do}"
