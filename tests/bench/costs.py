"""What a program costs with all processes that descend from it: CPU seconds and wall seconds.

Who waits for a process is told what it has used, but our warm workers are waited for by nobody. So all are looked at several times a second; what a
process uses after the last look is missing.
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

from processes import marked

_MARK = "BEAM_BENCH_PROGRAM"
_LOOK_SECONDS = 0.2
_TICKS = os.sysconf("SC_CLK_TCK")


def cost_of(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, float]:
    """Runs a program, waits until all that it has started has ended, too, and gives CPU and wall seconds; wall until the program's own end.

    Raises:
        RuntimeError: it ended badly.
    """
    mark = uuid.uuid4().hex
    used: dict[tuple[int, str], float] = {}
    began = time.perf_counter()
    program = subprocess.Popen(command, env={**os.environ, **environment, _MARK: mark})
    wall = 0.0
    while left := list(marked(_MARK, mark)):
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
