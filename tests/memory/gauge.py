"""Measures the memory of a server and all its processes together."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from job_server import JobServerProcess

_EVERY_SECONDS = 0.25


class Gauge:
    """Sampler of memory use in a ``with`` block.

    The sampler counts anonymous memory, which the system can reclaim only by swapping. Each process
    counts its share of shared memory. Mapped or cached files don't count, because the system
    reclaims them when it needs memory.

    Attributes:
        address: address of the server.
        peak: maximum memory use, bytes.
        parts: share of each process at the peak, MiB.
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
