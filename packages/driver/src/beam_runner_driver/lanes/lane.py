"""Lane: the server's record of a worker process that runs bundles one after the other. Times are
from ``time.monotonic``.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from beam_runner_engine.dispatch.slots import Slot
from beam_runner_engine.scheduler.events import BundleFailed
from beam_runner_runtime.channel.attempts import Attempt, LanePlace, add_lane_to_failure
from beam_runner_runtime.channel.messages import BundleReply, Entry, FromServer
from beam_runner_runtime.channel.server import WorkerLink


@attrs.define(eq=False)
class Lane(Slot):
    """Server's record of one lane of a job: a worker process that runs bundles one after the other.
    ``link`` is the connection to the worker process, and None while the process starts.
    """

    number: int
    link: WorkerLink | None = None

    @property
    def is_starting(self) -> bool:
        """Whether the worker process of the lane has not connected yet."""
        return self.link is None

    def runs_attempt(self, attempt: Attempt) -> bool:
        """Returns whether the lane's process runs this attempt at a bundle."""
        return self.runs_bundle_attempt(attempt.bundle, attempt.attempt)

    def send(self, command: FromServer) -> None:
        """Sends a command to the lane's worker process. The lane must have a process."""
        assert self.link is not None
        self.link.send(command)


def add_lane_to_entries(entries: Iterable[Entry], place: LanePlace | None) -> list[Entry]:
    """Returns journal entries from a process, with the process's lane added to commits and to
    failures of user code.
    """
    found: list[Entry] = []
    for entry in entries:
        if isinstance(entry, BundleReply):
            found.append(attrs.evolve(entry, place=place))
        elif isinstance(entry, BundleFailed):
            found.append(add_lane_to_failure(entry, place))
        else:
            found.append(entry)
    return found
