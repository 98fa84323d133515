"""Turns the monitoring data of an SDK, given by short ids, into full monitoring infos.

An SDK names every metric by a short id; what it stands for is asked once and kept, for short ids
are never used anew by the same SDK harness.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping

from beam_runner_model.bundles import MonitoringInfo
from beam_runner_urns import metrics as urns

from beam_runner_worker._protos import beam_fn_api_pb2, metrics_pb2
from beam_runner_worker.errors import HarnessError
from beam_runner_worker.totals import is_empty, is_known

_OF_A_MOMENT = frozenset(
    [urns.WORK_COMPLETED, urns.WORK_REMAINING, urns.DATA_CHANNEL_READ_INDEX, urns.PROGRESS_TYPE]
)
Ask = Callable[[beam_fn_api_pb2.InstructionRequest], beam_fn_api_pb2.InstructionResponse]


class ShortIds:
    """What the short ids of one SDK harness stand for.

    Args:
        ask: sends an instruction to the SDK and gives its answer; may raise HarnessError.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._known: dict[str, MonitoringInfo] = {}

    def resolve(
        self,
        by_short_id: Mapping[str, bytes],
        in_full: Iterable[metrics_pb2.MonitoringInfo],
    ) -> tuple[MonitoringInfo, ...]:
        """The metrics of a response.

        Args:
            by_short_id: payloads by short id.
            in_full: the same in full, from SDKs that know no short ids or send both; if there are
                any, they are all that counts, and nothing has to be asked.

        Raises:
            HarnessError: the SDK does not say what its short ids mean.
        """
        told = tuple(_full(info) for info in in_full)
        if told:
            return told
        with self._lock:
            unknown = [short_id for short_id in by_short_id if short_id not in self._known]
            if unknown:
                self._learn(unknown)
            infos = []
            for short_id, payload in by_short_id.items():
                known = self._known[short_id]
                infos.append(MonitoringInfo(known.urn, known.type, known.labels, payload))
            return tuple(infos)

    def _learn(self, short_ids: list[str]) -> None:
        request = beam_fn_api_pb2.InstructionRequest(
            monitoring_infos=beam_fn_api_pb2.MonitoringInfosMetadataRequest(
                monitoring_info_id=short_ids
            )
        )
        answer = self._ask(request).monitoring_infos.monitoring_info
        for short_id in short_ids:
            if short_id not in answer:
                raise HarnessError(f"the SDK does not know its own short id {short_id!r}")
            self._known[short_id] = _full(answer[short_id])


def _full(info: metrics_pb2.MonitoringInfo) -> MonitoringInfo:
    return MonitoringInfo(info.urn, info.type, tuple(sorted(info.labels.items())), info.payload)


class LastingMetrics:
    """Picks what goes into a job's totals: what means something once the bundle has ended.

    Left out are how far a bundle is, distributions to which nothing was added, and metrics of types
    that nobody here can add up: those are named, once for each type.

    Args:
        warn: takes what people should know.
    """

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._named: set[str] = set()

    def of(self, infos: Iterable[MonitoringInfo]) -> Iterator[MonitoringInfo]:
        """Those of some metrics."""
        for info in infos:
            if info.urn in _OF_A_MOMENT or info.type in _OF_A_MOMENT or is_empty(info):
                continue
            if is_known(info.type):
                yield info
            elif info.type not in self._named:
                self._named.add(info.type)
                self._warn(
                    f"the metric {info.urn} {dict(info.labels)} is left out, and all others of its "
                    f"type: values of the type {info.type!r} cannot be added up here"
                )
