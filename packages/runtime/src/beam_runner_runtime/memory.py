"""Memory limit of the runner's processes on this machine, and memory budget of one bundle."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from beam_runner_worker.out_of_memory import iterate_group_files

VARIABLE = "BEAM_RUNNER_MEMORY"
"""Environment variable with the upper limit (bytes) of the memory that the runner uses, in the
server and in executors.
"""
_SHARE_OF_BUNDLE = 32
"""Divisor: a bundle's budget is the memory limit per core, divided by this number. Reasons: the
server, Java and Python itself need most of the memory, a core can have four lanes, and grouped data
takes about three times its size.
"""
_BUDGETS_OF_TABLE = 2
"""Factor by which the budget for tables of combined values exceeds the budget of a bundle, because
such a table counts the memory that it really needs.
"""
_BUDGETS_OF_SECTION = 2
"""Factor by which the budget of a bundle in a section (a Spark job) is larger: a core runs one task
of a section at a time, instead of up to four lanes.
"""
_LEAST_BUDGET = 8 << 20
_MOST_BUDGET = 1 << 30


def read_memory_limit(root: Path = Path("/")) -> int:
    """Returns the memory (bytes) that all processes of the runner on this machine can use together.

    The result is the minimum of three limits: the memory of the machine, the limits of this
    process's control groups, and the environment variable ``BEAM_RUNNER_MEMORY``. Control groups
    apply in containers, for example. Their limit is ``memory.max`` in version 2, and
    ``memory.limit_in_bytes`` in version 1.

    Args:
        root: parent folder of ``proc`` and ``sys``.

    Raises:
        ValueError: The variable isn't a number of bytes; the text is one sentence.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    stated = os.environ.get(VARIABLE, "")
    if stated and not stated.isdecimal():
        raise ValueError(
            f"{VARIABLE} is {stated!r}; expected a number of bytes, such as 8000000000."
        )
    limits = [int(stated)] if stated else []
    return min([machine, *limits, *_read_group_limits(root)])


def compute_table_budget() -> int:
    """Returns the maximum memory (bytes) of values that a bundle combines before a shuffle."""
    return _BUDGETS_OF_TABLE * compute_bundle_budget()


@functools.cache
def compute_bundle_budget() -> int:
    """Returns the maximum size (bytes) of rows that one bundle holds in memory. Larger input goes
    to temporary files.
    """
    share = read_memory_limit() // (_SHARE_OF_BUNDLE * (os.cpu_count() or 1))
    return max(_LEAST_BUDGET, min(share, _MOST_BUDGET))


def compute_section_budget() -> int:
    """Returns two memory budgets (bytes): for a bundle of a section (stages that run as one Spark
    job), and for the bundle's waiting input.
    """
    return _BUDGETS_OF_SECTION * compute_bundle_budget()


def _read_group_limits(root: Path) -> list[int]:
    """Yields the memory limits (bytes) of this process's control groups and of all parent groups."""
    found: list[int] = []
    for file in iterate_group_files(root, "memory.max", "memory.limit_in_bytes"):
        try:
            text = file.read_text().strip()
        except OSError:
            continue
        if text.isdecimal():
            found.append(int(text))
    return found
