"""Metrics of a job: committed values from commits, and attempted values from progress messages."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from beam_runner_model.bundles import MonitoringInfo
from beam_runner_model.jobs import JobMetrics, MetricCell
from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_worker.totals import Totals


class JobMetricsSum:
    """Sum of the metrics of a job's bundles. Thread-safe.

    Committed metrics contain each committed bundle exactly once. Attempted metrics also contain the
    latest values of attempts that still run or that failed.

    Args:
        committed: totals of the commits so far.
    """

    def __init__(self, committed: Iterable[MonitoringInfo] = ()) -> None:
        self._lock = threading.Lock()
        self._committed = Totals()
        self._committed.add(committed)
        self._attempts: dict[Attempt, dict[str, tuple[MonitoringInfo, ...]]] = {}
        self._given_up = Totals()

    def record_progress(
        self, attempt: Attempt, metrics: tuple[MonitoringInfo, ...], process: str = ""
    ) -> None:
        """Records the latest metrics of a running bundle. A section (a Spark job that runs several
        stages) reports separately for each of its processes.
        """
        with self._lock:
            self._attempts.setdefault(attempt, {})[process] = metrics

    def record_commit(self, attempt: Attempt, metrics: Iterable[MonitoringInfo]) -> None:
        """Adds the metrics of a committed bundle, and removes its earlier progress."""
        with self._lock:
            self._committed.add(metrics)
            self._attempts.pop(attempt, None)

    def record_failure(self, attempt: Attempt) -> None:
        """Records the latest metrics of a failed attempt as attempted metrics."""
        with self._lock:
            for infos in self._attempts.pop(attempt, {}).values():
                self._given_up.add(infos)

    def compute_totals(self) -> JobMetrics:
        """Returns the committed and the attempted metrics of the job up to now."""
        with self._lock:
            committed = self._committed.infos()
            attempted = Totals()
            attempted.add(committed)
            attempted.add(self._given_up.infos())
            for by_process in self._attempts.values():
                for infos in by_process.values():
                    attempted.add(infos)
        return JobMetrics(
            attempted=tuple(map(_convert_metrics, attempted.infos())),
            committed=tuple(map(_convert_metrics, committed)),
        )


def _convert_metrics(info: MonitoringInfo) -> MetricCell:
    return MetricCell(urn=info.urn, type=info.type, payload=info.payload, labels=dict(info.labels))
