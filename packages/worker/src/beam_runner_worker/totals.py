"""Addition of monitoring infos of the same metric, depending on the type of the payload."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Iterable
from itertools import zip_longest

from apache_beam.coders import FloatCoder, IterableCoder, StrUtf8Coder, TupleCoder, VarIntCoder
from apache_beam.metrics.cells import BoundedTrieData
from beam_runner_model.bundle_costs import BUNDLE_COSTS_TYPE, add_bundle_costs
from beam_runner_model.bundles import MonitoringInfo
from beam_runner_urns import metrics as metric_urns

from beam_runner_worker._protos import metrics_pb2
from beam_runner_worker.samples import SAMPLED_ELEMENTS, merge_samples

_INTEGER = VarIntCoder()
_DOUBLE = FloatCoder()
_STRINGS = IterableCoder(StrUtf8Coder())
_DISTRIBUTIONS = frozenset(
    [metric_urns.DISTRIBUTION_INT64_TYPE, metric_urns.DISTRIBUTION_DOUBLE_TYPE]
)
_MOST_EXTREMES = 100
_LOGGER = logging.getLogger(__name__)


class Totals:
    """Totals of metrics: monitoring infos with the same URN, type and labels are added.

    Some monitoring infos can't be added, because their type is unknown or because the SDK sent an
    invalid payload. Then the first info is retained, and a warning names the metric.
    """

    def __init__(self) -> None:
        self._totals: dict[tuple[object, ...], MonitoringInfo] = {}
        self._refused: set[tuple[object, ...]] = set()

    def add(self, infos: Iterable[MonitoringInfo]) -> None:
        """Adds monitoring infos to the totals. The time depends only on the number of added infos."""
        for info in infos:
            key = (info.urn, info.type, info.labels)
            earlier = self._totals.get(key)
            if earlier is None:
                self._totals[key] = info
                continue
            try:
                self._totals[key] = _add_infos(earlier, info)
            except Exception as error:
                # Ignore any error, because an invalid metric of an SDK must not fail the job.
                if key not in self._refused:
                    self._refused.add(key)
                    _LOGGER.warning(
                        "Can't add up the metric %s %s: %s", info.urn, dict(info.labels), error
                    )

    def infos(self) -> tuple[MonitoringInfo, ...]:
        """Returns the total of each metric."""
        return tuple(self._totals.values())


def is_addable_type(metric_type: str) -> bool:
    """Returns True if metrics of a type can be added."""
    return metric_type in _ADDERS


def is_empty_distribution(info: MonitoringInfo) -> bool:
    """Returns True if the info is an empty distribution, which has no meaning in any SDK.

    Some SDKs send all fields of an empty distribution, and others send only a count of 0.
    """
    return info.type in _DISTRIBUTIONS and info.payload[:1] == b"\x00"


def _add_infos(left: MonitoringInfo, right: MonitoringInfo) -> MonitoringInfo:
    if is_empty_distribution(right):
        return left
    if is_empty_distribution(left):
        return right
    add = _ADDERS.get(left.type)
    if add is None:
        raise ValueError(f"the metric type {left.type!r} is unknown")
    return MonitoringInfo(left.urn, left.type, left.labels, add(left.payload, right.payload))


def _make_sum_adder(coder: VarIntCoder | FloatCoder) -> Callable[[bytes, bytes], bytes]:
    def add_payloads(left: bytes, right: bytes) -> bytes:
        encoded: bytes = coder.encode(coder.decode(left) + coder.decode(right))
        return encoded

    return add_payloads


def _make_distribution_adder(coder: VarIntCoder | FloatCoder) -> Callable[[bytes, bytes], bytes]:
    parts = TupleCoder([_INTEGER, coder, coder, coder])

    def add_payloads(left: bytes, right: bytes) -> bytes:
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

    return add_payloads


def _make_latest_adder(coder: VarIntCoder | FloatCoder) -> Callable[[bytes, bytes], bytes]:
    timed = TupleCoder([_INTEGER, coder])

    def add_payloads(left: bytes, right: bytes) -> bytes:
        return right if timed.decode(right)[0] >= timed.decode(left)[0] else left

    return add_payloads


def _make_extremes_adder(
    coder: VarIntCoder | FloatCoder, choose: Callable[..., list[float]]
) -> Callable[[bytes, bytes], bytes]:
    """Returns an adder that retains the largest or smallest 100 values of two payloads."""
    values = IterableCoder(coder)

    def add_payloads(left: bytes, right: bytes) -> bytes:
        everything = [*values.decode(left), *values.decode(right)]
        encoded: bytes = values.encode(choose(_MOST_EXTREMES, everything))
        return encoded

    return add_payloads


def _add_string_sets(left: bytes, right: bytes) -> bytes:
    encoded: bytes = _STRINGS.encode(sorted({*_STRINGS.decode(left), *_STRINGS.decode(right)}))
    return encoded


def _add_tries(left: bytes, right: bytes) -> bytes:
    tries = [
        BoundedTrieData.from_proto(metrics_pb2.BoundedTrie.FromString(data))
        for data in (left, right)
    ]
    encoded: bytes = tries[0].combine(tries[1]).to_proto().SerializeToString()
    return encoded


def _add_histograms(left: bytes, right: bytes) -> bytes:
    """Adds two encoded histograms with equal buckets.

    Beam's own class supports only one kind of buckets, and loses values outside of them.
    """
    one, other = (metrics_pb2.HistogramValue.FromString(data) for data in (left, right))
    if one.bucket_options != other.bucket_options:
        raise ValueError("the buckets of the histograms differ")
    pairs = zip_longest(one.bucket_counts, other.bucket_counts, fillvalue=0)
    added = metrics_pb2.HistogramValue(
        count=one.count + other.count,
        bucket_options=one.bucket_options,
        bucket_counts=[sum(pair) for pair in pairs],
    )
    encoded: bytes = added.SerializeToString()
    return encoded


_ADDERS: dict[str, Callable[[bytes, bytes], bytes]] = {
    metric_urns.SUM_INT64_TYPE: _make_sum_adder(_INTEGER),
    metric_urns.SUM_DOUBLE_TYPE: _make_sum_adder(_DOUBLE),
    metric_urns.DISTRIBUTION_INT64_TYPE: _make_distribution_adder(_INTEGER),
    metric_urns.DISTRIBUTION_DOUBLE_TYPE: _make_distribution_adder(_DOUBLE),
    metric_urns.LATEST_INT64_TYPE: _make_latest_adder(_INTEGER),
    metric_urns.LATEST_DOUBLE_TYPE: _make_latest_adder(_DOUBLE),
    metric_urns.TOP_N_INT64_TYPE: _make_extremes_adder(_INTEGER, heapq.nlargest),
    metric_urns.TOP_N_DOUBLE_TYPE: _make_extremes_adder(_DOUBLE, heapq.nlargest),
    metric_urns.BOTTOM_N_INT64_TYPE: _make_extremes_adder(_INTEGER, heapq.nsmallest),
    metric_urns.BOTTOM_N_DOUBLE_TYPE: _make_extremes_adder(_DOUBLE, heapq.nsmallest),
    metric_urns.SET_STRING_TYPE: _add_string_sets,
    metric_urns.BOUNDED_TRIE_TYPE: _add_tries,
    metric_urns.HISTOGRAM_TYPE: _add_histograms,
    SAMPLED_ELEMENTS: merge_samples,
    BUNDLE_COSTS_TYPE: add_bundle_costs,
}
