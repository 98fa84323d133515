"""A job's metrics: committed ones ride with the data, attempted ones come as tasks run."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from beam_runner_jobservices.records import JobMetrics
from beam_runner_jobservices.records import MonitoringInfo as JobMonitoringInfo
from beam_runner_worker.records import MonitoringInfo

from beam_spark_executor.channel.messages import TaskName
from beam_spark_executor.driver.adding import add_up


class MetricsTally:
    """Adds up monitoring infos; all methods may be called from any thread.

    Committed: of the tasks whose replies came with committed data, each exactly once. Attempted:
    those, and all that tasks still running, or ended without a commit, said last.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._committed: dict[tuple[object, ...], MonitoringInfo] = {}
        self._attempts: dict[TaskName, tuple[MonitoringInfo, ...]] = {}

    def progressed(self, task: TaskName, metrics: tuple[MonitoringInfo, ...]) -> None:
        """A task says how far it is."""
        with self._lock:
            self._attempts[task] = metrics

    def committed(self, section: str, metrics: Iterable[MonitoringInfo]) -> None:
        """An attempt at a section was committed: what its tasks said on the way counts no more."""
        with self._lock:
            self._committed = add_up([*self._committed.values(), *metrics])
            for task in [task for task in self._attempts if task.section == section]:
                del self._attempts[task]

    def totals(self) -> JobMetrics:
        """All metrics so far."""
        with self._lock:
            committed = list(self._committed.values())
            running = [info for infos in self._attempts.values() for info in infos]
        attempted = add_up([*committed, *running]).values()
        return JobMetrics(
            attempted=tuple(map(_to_record, attempted)),
            committed=tuple(map(_to_record, committed)),
        )


def _to_record(info: MonitoringInfo) -> JobMonitoringInfo:
    return JobMonitoringInfo(
        urn=info.urn, type=info.type, payload=info.payload, labels=dict(info.labels)
    )
