"""Workers keep the memory that they have freed: the next pieces of data don't ask the system for any."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, threading
import pyarrow as pa
from beam_spark_executor.processes import allocation

half = pa.array([b"x" * (1 << 19)])

def pieces():
    return [b"x" * (1 << 20) for _ in range(COUNT)], [pa.concat_arrays([half, half]) for _ in range(3)]

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    pieces()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def measure():
    found.append(min(faults() for _ in range(5)))

found = []
SETTLE
measure()
beside = threading.Thread(target=measure)
beside.start()
beside.join()
print(*found)
"""


def _faults(settle: str, count: int = 3) -> list[int]:
    """How many new pages so many pieces take, as few as can be after the first, in the main thread and in another."""
    program = PROGRAM.replace("SETTLE", settle).replace("COUNT", str(count))
    ran = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return [int(each) for each in ran.stdout.split()]


pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="others know no mallopt")


def test_pieces_take_the_memory_of_those_before_them() -> None:
    assert max(_faults("allocation.settle()")) < 50
    assert max(_faults("")) > 200


def test_what_a_section_has_for_a_task_is_kept_for_the_next() -> None:
    kept = _faults("allocation.settle(); allocation.keep(200 << 20)", count=100)
    assert max(kept) < 1_000
    assert max(_faults("allocation.settle()", count=100)) > 5_000
