"""Turns Beam's monitoring infos into records, without those that mean nothing here."""

from __future__ import annotations

from collections.abc import Iterable

from apache_beam.metrics import monitoring_infos

from beam_runner_worker._protos import metrics_pb2
from beam_runner_worker.records import MonitoringInfo

_NOT_MEASURED = frozenset(
    [
        monitoring_infos.START_BUNDLE_MSECS_URN,
        monitoring_infos.PROCESS_BUNDLE_MSECS_URN,
        monitoring_infos.FINISH_BUNDLE_MSECS_URN,
        monitoring_infos.TOTAL_MSECS_URN,
    ]
)
"""Execution times: they need Beam's sampling thread, which is not run (see ``stage``)."""


def to_records(infos: Iterable[metrics_pb2.MonitoringInfo]) -> tuple[MonitoringInfo, ...]:
    """Converts, dropping execution times and distributions to which nothing was added."""
    return tuple(
        MonitoringInfo(
            urn=info.urn,
            type=info.type,
            labels=tuple(sorted(info.labels.items())),
            payload=info.payload,
        )
        for info in infos
        if info.urn not in _NOT_MEASURED and not _is_empty_distribution(info)
    )


def _is_empty_distribution(info: metrics_pb2.MonitoringInfo) -> bool:
    """A distribution's payload starts with its count, a varint."""
    return info.type == monitoring_infos.DISTRIBUTION_INT64_TYPE and info.payload[:1] == b"\x00"
