"""Tests that workers reuse freed memory: the next data needs no new memory of the system."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, threading
import pyarrow as pa
from beam_runner_runtime.processes import allocation

half = pa.array([b"x" * (1 << 19)])

def pieces():
    return [b"x" * (1 << 20) for _ in range(3)], [pa.concat_arrays([half, half]) for _ in range(3)]

room = [None] * 100

def task():
    # In this room, and with nothing small: what lies above blocks, as Python's or Arrow's own, keeps the system from taking them.
    for number in range(100):
        room[number] = b"x" * (1 << 20)
    for number in range(100):
        room[number] = None

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    WORK()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def measure():
    # The heap settles over a few runs: until then, some runs still need a new block or two.
    found.append(min(faults() for _ in range(RUNS)))

found = []
SETTLE
measure()
beside = threading.Thread(target=measure)
beside.start()
beside.join()
print(*found)
"""


def _faults(work: str, settle: str = "", runs: int = 5) -> list[int]:
    """Returns the minimum number of page faults of ``runs`` runs of some work, in the main thread
    and in another thread.
    """
    program = PROGRAM.replace("SETTLE", settle).replace("WORK", work).replace("RUNS", str(runs))
    ran = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return [int(each) for each in ran.stdout.split()]


pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="others know no mallopt")


def test_tuned_allocator_reuses_freed_memory() -> None:
    assert max(_faults("pieces", "allocation.tune_allocator()", runs=30)) < 50
    assert max(_faults("pieces", runs=30)) > 200


def test_section_memory_is_reused_by_next_task() -> None:
    kept = _faults("task", "allocation.tune_allocator(); allocation.retain_freed_memory(200 << 20)")
    assert max(kept) < 1_000
    assert max(_faults("task", "allocation.tune_allocator()")) > 5_000
