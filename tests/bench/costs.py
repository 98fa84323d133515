"""Cost of a program with all its descendant processes: CPU seconds and wall seconds.

The operating system reports the CPU time of a process to its waiting parent, but no process waits
for our warm workers. So this module samples all processes several times a second; the CPU time
after the last sample is missing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from processes import find_marked_processes

_MARK = "BEAM_BENCH_PROGRAM"
_LOOK_SECONDS = 0.2
_TICKS = os.sysconf("SC_CLK_TCK")


def cost_of(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Runs a program, waits for all its processes, and returns CPU and wall seconds; wall seconds end
    with the program.

    Raises:
        RuntimeError: the program failed.
    """
    mark = uuid.uuid4().hex
    used: dict[tuple[int, str], float] = {}
    began = time.perf_counter()
    program = subprocess.Popen(command, env={**os.environ, **environment, _MARK: mark})
    wall = 0.0
    while left := list(find_marked_processes(_MARK, mark)):
        for pid in left:
            _note(pid, used)
        if not wall and program.poll() is not None:
            wall = time.perf_counter() - began
        time.sleep(_LOOK_SECONDS)
    if program.wait():
        raise RuntimeError(f"{' '.join(command)} ended with {program.returncode}")
    return sum(used.values()), wall or time.perf_counter() - began


def _note(pid: int, used: dict[tuple[int, str], float]) -> None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return
    fields = stat.rpartition(")")[2].split()
    user, system, started = fields[11], fields[12], fields[19]
    used[pid, started] = (int(user) + int(system)) / _TICKS
