"""How long threads ran on a core, and waited for one: Linux tells both of each; elsewhere nothing is known."""

from __future__ import annotations

import attrs

from beam_runner_worker.process_tree import threads


@attrs.frozen
class CoreTime:
    """Seconds that a thread, or several, ran on a core and waited for one."""

    ran: float
    waited: float

    @property
    def wanted(self) -> float:
        """For how long it would have run if it had been alone."""
        return self.ran + self.waited


def core_time(thread: int, process: int | str = "self") -> CoreTime | None:
    """That of a thread by its native id, of this process or another; None if it is not known."""
    try:
        with open(f"/proc/{process}/task/{thread}/schedstat", "rb") as file:
            ran, waited, _ = file.read().split()
    except (OSError, ValueError):
        return None
    return CoreTime(int(ran) / 1e9, int(waited) / 1e9)


def core_times(process: int | str = "self") -> dict[int, CoreTime]:
    """Those of all threads of a process; empty if nothing is known."""
    times = {thread: core_time(thread, process) for thread in threads(process)}
    return {thread: told for thread, told in times.items() if told is not None}
