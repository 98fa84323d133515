"""How two monitoring infos of the same metric become one, by the type of their payload."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from apache_beam.coders import FloatCoder, IterableCoder, StrUtf8Coder, TupleCoder, VarIntCoder
from apache_beam.metrics.cells import BoundedTrieData, HistogramData
from beam_runner_urns import metrics as metric_urns
from beam_runner_worker.records import MonitoringInfo

from beam_spark_executor import _protos

_INTEGER = VarIntCoder()
_DOUBLE = FloatCoder()
_STRINGS = IterableCoder(StrUtf8Coder())


def add_up(infos: Iterable[MonitoringInfo]) -> dict[tuple[object, ...], MonitoringInfo]:
    """One info for each metric: those with the same URN, type and labels are added up.

    Of a type that nobody has told us how to add, the last one stands.
    """
    totals: dict[tuple[object, ...], MonitoringInfo] = {}
    for info in infos:
        key = (info.urn, info.type, info.labels)
        earlier = totals.get(key)
        totals[key] = info if earlier is None else _add(earlier, info)
    return totals


def _add(left: MonitoringInfo, right: MonitoringInfo) -> MonitoringInfo:
    add = _ADDERS.get(left.type)
    if add is None:
        return right
    return MonitoringInfo(left.urn, left.type, left.labels, add(left.payload, right.payload))


def _sum(coder: VarIntCoder | FloatCoder) -> Callable[[bytes, bytes], bytes]:
    def add(left: bytes, right: bytes) -> bytes:
        encoded: bytes = coder.encode(coder.decode(left) + coder.decode(right))
        return encoded

    return add


def _distribution(coder: VarIntCoder | FloatCoder) -> Callable[[bytes, bytes], bytes]:
    parts = TupleCoder([_INTEGER, coder, coder, coder])

    def add(left: bytes, right: bytes) -> bytes:
        count, total, least, most = parts.decode(left)
        more, more_total, other_least, other_most = parts.decode(right)
        encoded: bytes = parts.encode(
            (
                count + more,
                total + more_total,
                min(least, other_least),
                max(most, other_most),
            )
        )
        return encoded

    return add


def _latest(coder: VarIntCoder | FloatCoder) -> Callable[[bytes, bytes], bytes]:
    timed = TupleCoder([_INTEGER, coder])

    def add(left: bytes, right: bytes) -> bytes:
        return right if timed.decode(right)[0] >= timed.decode(left)[0] else left

    return add


def _strings(left: bytes, right: bytes) -> bytes:
    encoded: bytes = _STRINGS.encode(sorted({*_STRINGS.decode(left), *_STRINGS.decode(right)}))
    return encoded


def _trie(left: bytes, right: bytes) -> bytes:
    tries = [
        BoundedTrieData.from_proto(_protos.BoundedTrie.FromString(data)) for data in (left, right)
    ]
    encoded: bytes = tries[0].combine(tries[1]).to_proto().SerializeToString()
    return encoded


def _histogram(left: bytes, right: bytes) -> bytes:
    histograms = [
        HistogramData.from_proto(_protos.HistogramValue.FromString(data)) for data in (left, right)
    ]
    encoded: bytes = histograms[0].combine(histograms[1]).to_proto().SerializeToString()
    return encoded


_ADDERS: dict[str, Callable[[bytes, bytes], bytes]] = {
    metric_urns.SUM_INT64_TYPE: _sum(_INTEGER),
    metric_urns.SUM_DOUBLE_TYPE: _sum(_DOUBLE),
    metric_urns.DISTRIBUTION_INT64_TYPE: _distribution(_INTEGER),
    metric_urns.DISTRIBUTION_DOUBLE_TYPE: _distribution(_DOUBLE),
    metric_urns.LATEST_INT64_TYPE: _latest(_INTEGER),
    metric_urns.LATEST_DOUBLE_TYPE: _latest(_DOUBLE),
    metric_urns.SET_STRING_TYPE: _strings,
    metric_urns.BOUNDED_TRIE_TYPE: _trie,
    metric_urns.HISTOGRAM_TYPE: _histogram,
}
