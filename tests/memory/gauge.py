"""Measures the memory of a server and all its processes together."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from job_server import JobServerProcess

_EVERY_SECONDS = 0.25


class Gauge:
    """Looks again and again; in a ``with`` block.

    What counts is anonymous memory, which nothing but swapping can take back. Of what processes
    share each has its part. Files that are mapped or cached don't count: the system takes them back when
    it needs memory.

    Attributes:
        address: the server's.
        peak: the most bytes there were at a time.
        parts: what each process had of them, in MiB.
    """

    def __init__(self, server: JobServerProcess) -> None:
        self.address = server.address
        self.peak = 0
        self.parts: list[tuple[int, str]] = []
        self._server = server
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Gauge:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._ends.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ends.wait(_EVERY_SECONDS):
            processes = self._server.processes()
            now = {pid: _anonymous(pid) for pid in processes}
            if sum(now.values()) > self.peak:
                self.peak = sum(now.values())
                self.parts = sorted((now[pid] >> 20, processes[pid][:40]) for pid in now)


def _anonymous(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0  # it has ended in the meantime
    kept = (line for line in lines if line.startswith(("Pss_Anon", "Pss_Shmem", "SwapPss")))
    return sum(int(line.split()[1]) for line in kept) << 10
