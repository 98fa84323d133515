"""Worker processes of a job that a test makes up, as its condition sees them."""

from __future__ import annotations

import attrs
from beam_runner_driver.lanes.processes import SilentProcess


@attrs.define
class FakeProcesses:
    """Process table whose contents the test sets."""

    silent: list[SilentProcess] = attrs.field(factory=list)
    started_bundle_counts: dict[str, int] = attrs.field(factory=dict)
    lost_process_count: int = 0

    def find_silent_processes(self) -> list[SilentProcess]:
        """Returns the processes that can't respond."""
        return self.silent
