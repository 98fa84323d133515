"""Conversion of an SDK's metrics to full monitoring infos. The SDK sends metrics with short ids.

An SDK assigns a short id to every metric. The runner requests the meaning of a short id once and
caches it, because an SDK harness never reuses a short id.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping

from beam_runner_model.bundles import MonitoringInfo
from beam_runner_urns import metrics as urns

from beam_runner_worker._protos import beam_fn_api_pb2, metrics_pb2
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.totals import is_addable_type, is_empty_distribution

_OF_A_MOMENT = frozenset(
    [urns.WORK_COMPLETED, urns.WORK_REMAINING, urns.DATA_CHANNEL_READ_INDEX, urns.PROGRESS_TYPE]
)
Ask = Callable[[beam_fn_api_pb2.InstructionRequest], beam_fn_api_pb2.InstructionResponse]


class ShortIds:
    """Cache of the meanings of the short ids of one SDK harness.

    Args:
        ask: function that sends an instruction to the SDK and returns its response; may raise
            HarnessError.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._known: dict[str, MonitoringInfo] = {}

    def resolve_metrics(
        self,
        by_short_id: Mapping[str, bytes],
        in_full: Iterable[metrics_pb2.MonitoringInfo],
    ) -> tuple[MonitoringInfo, ...]:
        """Returns the metrics of an SDK's response as full monitoring infos.

        Args:
            by_short_id: payloads by short id.
            in_full: full monitoring infos. If an SDK sends full monitoring infos, the function
                returns only these infos, and doesn't request short ids.

        Raises:
            HarnessError: The SDK doesn't return the meaning of a short id.
        """
        told = tuple(_convert_info(info) for info in in_full)
        if told:
            return told
        with self._lock:
            unknown = [short_id for short_id in by_short_id if short_id not in self._known]
            if unknown:
                self._request_meanings(unknown)
            infos = []
            for short_id, payload in by_short_id.items():
                known = self._known[short_id]
                infos.append(MonitoringInfo(known.urn, known.type, known.labels, payload))
            return tuple(infos)

    def _request_meanings(self, short_ids: list[str]) -> None:
        request = beam_fn_api_pb2.InstructionRequest(
            monitoring_infos=beam_fn_api_pb2.MonitoringInfosMetadataRequest(
                monitoring_info_id=short_ids
            )
        )
        answer = self._ask(request).monitoring_infos.monitoring_info
        for short_id in short_ids:
            if short_id not in answer:
                raise HarnessError(f"the SDK doesn't know its short id {short_id!r}")
            self._known[short_id] = _convert_info(answer[short_id])


def _convert_info(info: metrics_pb2.MonitoringInfo) -> MonitoringInfo:
    return MonitoringInfo(info.urn, info.type, tuple(sorted(info.labels.items())), info.payload)


class SummableMetricsFilter:
    """Filter for the metrics that can be added to the totals of a job.

    The filter drops metrics of a bundle's progress, empty distributions, and metrics of types that
    the runner can't add. The function warns once for each type that it can't add.

    Args:
        warn: function that shows a warning to the user.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._named: set[str] = set()

    def filter_metrics(self, infos: Iterable[MonitoringInfo]) -> Iterator[MonitoringInfo]:
        """Yields the given metrics that can be added to the totals of a job."""
        for info in infos:
            if info.urn in _OF_A_MOMENT or info.type in _OF_A_MOMENT or is_empty_distribution(info):
                continue
            if is_addable_type(info.type):
                yield info
            elif info.type not in self._named:
                self._named.add(info.type)
                self._warn(
                    f"the metric {info.urn} {dict(info.labels)} is ignored, like all"
                    " metrics of its type: the runner can't combine values of the type"
                    f" {info.type!r}"
                )
