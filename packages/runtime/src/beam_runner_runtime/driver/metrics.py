"""A job's metrics: committed ones come with the commits, attempted ones as bundles run."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from beam_runner_model.bundles import MonitoringInfo
from beam_runner_model.jobs import JobMetrics, MetricCell
from beam_runner_worker.totals import Totals

from beam_runner_runtime.channel.attempts import Attempt


class MetricsTally:
    """Adds up monitoring infos; all methods may be called from any thread.

    Committed: of bundles that were committed, each exactly once. Attempted: those, and all that
    attempts still running, or ended without a commit, said last.

    Args:
        committed: the totals of what was committed so far.
    """

    def __init__(self, committed: Iterable[MonitoringInfo] = ()) -> None:
        self._lock = threading.Lock()
        self._committed = Totals()
        self._committed.add(committed)
        self._attempts: dict[Attempt, dict[str, tuple[MonitoringInfo, ...]]] = {}
        self._given_up = Totals()

    def progressed(
        self, attempt: Attempt, metrics: tuple[MonitoringInfo, ...], process: str = ""
    ) -> None:
        """A running bundle says how far it is; of a section each process that works on it does."""
        with self._lock:
            self._attempts.setdefault(attempt, {})[process] = metrics

    def committed(self, attempt: Attempt, metrics: Iterable[MonitoringInfo]) -> None:
        """A bundle was committed: what it said on the way counts no more."""
        with self._lock:
            self._committed.add(metrics)
            self._attempts.pop(attempt, None)

    def failed(self, attempt: Attempt) -> None:
        """An attempt came to nothing: what it said last stays attempted."""
        with self._lock:
            for infos in self._attempts.pop(attempt, {}).values():
                self._given_up.add(infos)

    def totals(self) -> JobMetrics:
        """All metrics so far."""
        with self._lock:
            committed = self._committed.infos()
            attempted = Totals()
            attempted.add(committed)
            attempted.add(self._given_up.infos())
            for by_process in self._attempts.values():
                for infos in by_process.values():
                    attempted.add(infos)
        return JobMetrics(
            attempted=tuple(map(_to_record, attempted.infos())),
            committed=tuple(map(_to_record, committed)),
        )


def _to_record(info: MonitoringInfo) -> MetricCell:
    return MetricCell(urn=info.urn, type=info.type, payload=info.payload, labels=dict(info.labels))
