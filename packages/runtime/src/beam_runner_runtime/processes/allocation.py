"""Settings of glibc's ``malloc``, so that a worker reuses freed memory and doesn't return the
memory to the system.
"""

from __future__ import annotations

import contextlib
import ctypes
import os

from beam_runner_runtime.memory import compute_bundle_budget

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Parameters of glibc's ``mallopt``, from ``malloc.h``."""
_LARGE = 32 << 20
"""Block size (bytes) from which glibc allocates a block separately from the heap, and returns it to
the system when it's freed. This value is glibc's maximum.
"""
_MOST_KEPT = 64 << 20
_SHARE_KEPT = 4
"""Divisor: a process retains at most a bundle's memory budget divided by this number, and at most `_MOST_KEPT`."""
_CHOSEN = "ARROW_DEFAULT_MEMORY_POOL"


def tune_allocator() -> None:
    """Configures glibc to retain freed memory for later data of the process.

    Data passes through a dozen blocks of 1 MB. By default, the operating system releases each block
    and clears the next block page by page. That took a third of the CPU time of jobs with elements
    of 1,000 bytes. Arrow also allocates with ``malloc``, unless its environment variable selects
    another pool. All threads share one arena, because bundles of sections run in a second thread.
    The function does nothing if the C library isn't glibc.
    """
    import pyarrow as pa  # local import, because processes that never allocate Arrow data load this module too

    with contextlib.suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, _LARGE)
        if _CHOSEN not in os.environ:
            pa.set_memory_pool(pa.system_memory_pool())
    retain_freed_memory(min(_MOST_KEPT, compute_bundle_budget() // _SHARE_KEPT))


def retain_freed_memory(size: int) -> None:
    """Sets the maximum size (bytes) of freed memory that the process retains, for the next tasks of
    a section (a Spark job).
    """
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_TRIM_THRESHOLD, size)
