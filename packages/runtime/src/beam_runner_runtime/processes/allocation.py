"""Memory that C code in a worker has freed stays with the worker for a while, to be used again."""

from __future__ import annotations

import contextlib
import ctypes
import os

from beam_runner_runtime.memory import bundle_budget

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Parameters of glibc's ``mallopt``, from ``malloc.h``."""
_LARGE = 32 << 20
"""Larger blocks are the system's own, given back when they are freed; glibc allows no more."""
_MOST_KEPT = 64 << 20
_SHARE_KEPT = 4
"""One part in so many of what a bundle may have in memory is kept, if that is less."""
_CHOSEN = "ARROW_DEFAULT_MEMORY_POOL"


def settle() -> None:
    """Has freed memory kept for the next piece of data, which goes through a dozen blocks of a megabyte.

    Else the system takes each back and clears each anew, page by page: a third of the CPU time of jobs whose elements have
    1,000 bytes. Arrow takes its memory from ``malloc``, too, unless its own variable says otherwise, and all threads
    share what is kept: bundles of sections run in a second one. Does nothing where the C library is not glibc.
    """
    import pyarrow as pa  # here, for processes that only stand for a daemon load this module, too

    with contextlib.suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, _LARGE)
        if _CHOSEN not in os.environ:
            pa.set_memory_pool(pa.system_memory_pool())
    keep(min(_MOST_KEPT, bundle_budget() // _SHARE_KEPT))


def keep(size: int) -> None:
    """Has so many bytes of freed memory kept from now on, as one task of a section needs them after the other."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).mallopt(_TRIM_THRESHOLD, size)
