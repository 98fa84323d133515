"""External systems that are unavailable, and for which worker processes of a job wait."""

from __future__ import annotations

from beam_runner_runtime.channel.messages import NeighbourWaitStatus
from beam_runner_runtime.channel.server import WorkerLink
from beam_runner_storage.unavailable import ExternalSystemUnavailable

from beam_runner_driver.ledger.retrying_journal import Outage


class WorkerOutages:
    """Unavailable external systems, by waiting worker process. Only the job's thread can use it.
    Times are from ``time.monotonic``.
    """

    def __init__(self) -> None:
        self._awaited: dict[WorkerLink, Outage] = {}

    def handle_wait_message(
        self, link: WorkerLink, message: NeighbourWaitStatus, now: float
    ) -> None:
        """Handles the message that a worker process has started or ended to wait for an external system."""
        if not message.neighbour:
            self._awaited.pop(link, None)
            return
        before = self._awaited.get(link)
        is_same = before is not None and before.away.neighbour == message.neighbour
        since = before.since if before is not None and is_same else now
        away = ExternalSystemUnavailable(message.neighbour, message.reason)
        self._awaited[link] = Outage(away, since, now)

    def remove_process(self, link: WorkerLink) -> None:
        """Removes the outage of an exited worker process."""
        self._awaited.pop(link, None)

    def list_outages(self) -> tuple[Outage, ...]:
        """Returns an outage for each external system, with the time at which the first process started to wait."""
        found: dict[str, Outage] = {}
        for outage in sorted(self._awaited.values(), key=lambda one: one.since):
            found.setdefault(outage.away.neighbour, outage)
        return tuple(found.values())
