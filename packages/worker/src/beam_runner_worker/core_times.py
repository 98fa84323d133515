"""CPU times and run-queue waits of threads, from Linux's /proc; unknown on other systems."""

from __future__ import annotations

import attrs

from beam_runner_worker.process_tree import list_threads


@attrs.frozen
class CoreTime:
    """CPU time and run-queue wait of one or several threads, in seconds."""

    ran: float
    waited: float

    @property
    def demanded_seconds(self) -> float:
        """CPU time in seconds that the threads would have used on an idle machine: the sum of CPU time and wait."""
        return self.ran + self.waited


def read_thread_time(thread: int, process: int | str = "self") -> CoreTime | None:
    """Returns the CPU time and wait of the thread with a native ID; None if unknown."""
    try:
        with open(f"/proc/{process}/task/{thread}/schedstat", "rb") as file:
            ran, waited, _ = file.read().split()
    except (OSError, ValueError):
        return None
    return CoreTime(int(ran) / 1e9, int(waited) / 1e9)


def read_thread_times(process: int | str = "self") -> dict[int, CoreTime]:
    """Returns the CPU time and wait of each thread of a process, by native thread ID; empty if unknown."""
    times = {thread: read_thread_time(thread, process) for thread in list_threads(process)}
    return {thread: told for thread, told in times.items() if told is not None}
