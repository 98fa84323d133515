"""A job's metrics: committed ones ride with the data, attempted ones come as tasks run."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from apache_beam.metrics import monitoring_infos
from beam_runner_jobservices.records import JobMetrics
from beam_runner_jobservices.records import MonitoringInfo as JobMonitoringInfo
from beam_runner_worker.records import MonitoringInfo

from beam_spark_executor import _protos
from beam_spark_executor.channel.messages import TaskName


class MetricsTally:
    """Adds up monitoring infos; all methods may be called from any thread.

    Committed: of the tasks whose replies came with committed data, each exactly once. Attempted:
    those, and all that tasks still running, or ended without a commit, said last.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._committed: list[_protos.MonitoringInfo] = []
        self._attempts: dict[TaskName, tuple[MonitoringInfo, ...]] = {}

    def progressed(self, task: TaskName, metrics: tuple[MonitoringInfo, ...]) -> None:
        """A task says how far it is."""
        with self._lock:
            self._attempts[task] = metrics

    def committed(self, section: str, metrics: Iterable[MonitoringInfo]) -> None:
        """An attempt at a section was committed: what its tasks said on the way counts no more."""
        with self._lock:
            self._committed = _add_up([*self._committed, *map(_to_proto, metrics)])
            for task in [task for task in self._attempts if task.section == section]:
                del self._attempts[task]

    def totals(self) -> JobMetrics:
        """All metrics so far."""
        with self._lock:
            committed = list(self._committed)
            running = [info for infos in self._attempts.values() for info in infos]
        attempted = _add_up([*committed, *map(_to_proto, running)])
        return JobMetrics(
            attempted=tuple(map(_to_record, attempted)),
            committed=tuple(map(_to_record, committed)),
        )


def _add_up(infos: list[_protos.MonitoringInfo]) -> list[_protos.MonitoringInfo]:
    return list(monitoring_infos.consolidate(infos))


def _to_proto(info: MonitoringInfo) -> _protos.MonitoringInfo:
    return _protos.MonitoringInfo(
        urn=info.urn, type=info.type, payload=info.payload, labels=dict(info.labels)
    )


def _to_record(info: _protos.MonitoringInfo) -> JobMonitoringInfo:
    return JobMonitoringInfo(
        urn=info.urn, type=info.type, payload=info.payload, labels=dict(info.labels)
    )
