"""Which process is meant by a number: it may be another one's by now, or mean one of another machine.

A process is known by the machine's boot, the namespace that counts it, and when it was started there.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

_STARTED = 19
"""Which field after the name holds when a process was started."""


def birth_of(pid: int) -> str:
    """What tells a running process of this machine from all others that have or had its number.

    Empty if it has ended, or the system does not tell.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = os.readlink("/proc/self/ns/pid")
        started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[_STARTED]
    except OSError:
        return ""
    return f"{boot} {space} {started}"


def kill(pid: int, birth: str) -> None:
    """Kills a process if it is the one that was born so, which only one of this machine can be."""
    if not birth or not hasattr(os, "pidfd_open"):
        return
    with contextlib.suppress(OSError):
        process = os.pidfd_open(pid)
        try:
            if birth_of(pid) == birth:
                signal.pidfd_send_signal(process, signal.SIGKILL)
        finally:
            os.close(process)
