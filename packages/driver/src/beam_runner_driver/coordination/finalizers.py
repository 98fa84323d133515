"""Bundle finalization callbacks: the worker processes that must run them after the commit."""

from __future__ import annotations

from collections.abc import Iterable

from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.channel.messages import BundleReply, Entry, RunFinalizers
from beam_runner_runtime.channel.server import WorkerLink


class FinalizationCallbacks:
    """Map from uncommitted bundles to the worker processes that registered their finalization
    callbacks. Only the job's thread can use it.

    Args:
        runs_callbacks: whether callbacks run; a shadow run runs none.
    """

    def __init__(self, *, runs_callbacks: bool) -> None:
        self._runs_callbacks = runs_callbacks
        self._known: dict[int, tuple[WorkerLink, Attempt]] = {}

    def record_process(self, link: WorkerLink, reply: BundleReply) -> None:
        """Records the process that ran a bundle, if the bundle has callbacks."""
        if reply.done.finalize and self._runs_callbacks:
            self._known[reply.done.bundle] = (link, reply.attempt)

    def record_processes(self, link: WorkerLink, entries: Iterable[Entry]) -> None:
        """Records the process that ran the bundles whose results are in `entries`."""
        for entry in entries:
            if isinstance(entry, BundleReply):
                self.record_process(link, entry)

    def run_callbacks(self, bundles: Iterable[int]) -> None:
        """Runs the callbacks of committed bundles in their processes. Skips callbacks whose process has exited."""
        for number in bundles:
            known = self._known.pop(number, None)
            if known is not None:
                link, attempt = known
                link.send(RunFinalizers((attempt,)))
