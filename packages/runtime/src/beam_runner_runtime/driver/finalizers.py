"""Which processes have the finalization callbacks of bundles whose commit is awaited."""

from __future__ import annotations

from collections.abc import Iterable

from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.channel.messages import BundleReply, Entry, Finalize
from beam_runner_runtime.channel.server import WorkerLink


class Finalizers:
    """Belongs to the job's own thread."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[WorkerLink, Attempt]] = {}

    def remember(self, link: WorkerLink, reply: BundleReply) -> None:
        """A process has processed a bundle, and keeps its callbacks if it has any."""
        if reply.done.finalize:
            self._known[reply.done.bundle] = (link, reply.attempt)

    def remember_all(self, link: WorkerLink, entries: Iterable[Entry]) -> None:
        """A process has processed the bundles among some entries."""
        for entry in entries:
            if isinstance(entry, BundleReply):
                self.remember(link, entry)

    def run(self, bundles: Iterable[int]) -> None:
        """Has the callbacks of committed bundles run where the bundles ran; with their process they are gone."""
        for number in bundles:
            known = self._known.pop(number, None)
            if known is not None:
                link, attempt = known
                link.send(Finalize((attempt,)))
