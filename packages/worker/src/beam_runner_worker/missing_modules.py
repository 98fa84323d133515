"""Advice for errors about Python modules that a pipeline needs, but that aren't installed on the
workers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_ELSEWHERE = (
    "submit your own package with --setup_file or --extra_package, and a package of an"
    " index with --requirements_file; or run the code in the submitting program, with"
    " --environment_type=LOOPBACK"
)
_IN_A_POOL = (
    "worker pools don't install packages for a job: install the module in the Python"
    " of the pool's workers; with --environment_type=LOOPBACK, that is the Python of"
    " the submitting program"
)
_MISSING = re.compile(r"\bModuleNotFoundError: No module named '(?P<name>[^']+)'")


def describe_missing_module(lines: Iterable[str], *, in_a_pool: bool = False) -> str | None:
    """Returns the last log line that reports a missing Python module, with advice; None if no line
    reports a missing module.
    """
    found = [line.strip() for line in lines if _MISSING.search(line)]
    return add_missing_module_advice(found[-1], in_a_pool=in_a_pool) if found else None


def add_missing_module_advice(summary: str, *, in_a_pool: bool = False) -> str:
    """Returns the summary of an exception, with advice appended if the exception reports a missing
    module.

    Args:
        summary: the type and message of the exception on one line.
        in_a_pool: whether the code ran in a worker of a pool; with LOOPBACK, the submitting program
            is such a pool.
    """
    missing = _MISSING.search(summary)
    if missing is None:
        return summary
    what_to_do = _IN_A_POOL if in_a_pool else _ELSEWHERE
    return f"{summary}; {missing['name']!r} isn't installed on the worker: {what_to_do}"
