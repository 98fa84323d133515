"""Unique identity of a process. A process id isn't unique, because the system reuses ids, and
machines use the same ids.

The identity consists of the machine's boot id, the PID namespace, and the start time of the
process.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

_STARTED = 19
"""Index of the start time in `/proc/PID/stat`, among the fields after the process name."""


def read_process_identity(pid: int) -> str:
    """Returns the identity of a running process on this machine, which no other process shares.

    Returns an empty string if the process exited or the system doesn't expose this data.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = os.readlink("/proc/self/ns/pid")
        started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[_STARTED]
    except OSError:
        return ""
    return f"{boot} {space} {started}"


def kill_process(pid: int, birth: str) -> None:
    """Kills the process `pid` of this machine, if `birth` still identifies the process."""
    if not birth or not hasattr(os, "pidfd_open"):
        return
    with contextlib.suppress(OSError):
        process = os.pidfd_open(pid)
        try:
            if read_process_identity(pid) == birth:
                signal.pidfd_send_signal(process, signal.SIGKILL)
        finally:
            os.close(process)
