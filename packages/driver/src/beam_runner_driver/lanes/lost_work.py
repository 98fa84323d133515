"""Work that was lost when its worker process or lane ended."""

from __future__ import annotations

import attrs
from beam_runner_engine.scheduler.commands import Bundle
from beam_runner_runtime.channel.attempts import LostProcess
from beam_runner_runtime.channel.server import WorkerLink


@attrs.frozen
class LostWork:
    """Bundle or scheduler loop that was lost when its worker process or lane ended, and must run
    again.

    Attributes:
        bundle: bundle that the lane ran, if any.
        loop: whether the lane ran the loop inside a task.
        link: connection to the process, if the lane had a process.
    """

    bundle: Bundle | None = None
    loop: bool = False
    link: WorkerLink | None = attrs.field(default=None, eq=False)

    @property
    def process(self) -> LostProcess:
        """Record of the lost process."""
        if self.link is None:
            return LostProcess()
        hello, end = self.link.hello, self.link.end
        if end is None:
            return LostProcess(hello.host, hello.pid)
        return LostProcess(hello.host, hello.pid, end.code, end.lacked_memory)
