"""Selection of the metrics for an answer of the Job API: the metrics that the client displays,
within its size limit.

Only a call with `ALL_METRICS` gets the runner's own metrics. Python clients get only the user's
metrics, because Beam's Python SDK would list all other metrics together with them. Clients of other
SDKs also get Beam's metrics, such as element counts, because these SDKs separate them.

Clients refuse answers above 4 MiB, and the Job API has no pages for metrics. The server leaves out
the metrics that don't fit, and a counter reports their number.
"""

from __future__ import annotations

from collections.abc import Collection

import attrs
from beam_runner_model.jobs import JobMetrics, MetricCell
from beam_runner_model.varints import encode_varint
from beam_runner_urns import metrics as urns

MOST_BYTES = 4 << 20
LEFT_OUT = ("beam_runner", "metrics_left_out_of_this_answer")
"""The namespace and name of the counter of omitted metrics. The counter is missing if nothing was omitted."""
ALL_METRICS = ("beam-runner-metrics", "all")
"""gRPC metadata of a call that also requests the runner's own metrics. Other servers ignore this
metadata.
"""
_FIELD_BYTES = 4
"""The size in bytes of a field header (number and length) for content of up to 2 MiB."""
_BEAM = "beam:metric:"
_USER = "beam:metric:user:"
_COUNTERS = frozenset({urns.USER_SUM_INT64, urns.USER_SUM_DOUBLE})
_ZEROS = {urns.SUM_INT64_TYPE: encode_varint(0), urns.SUM_DOUBLE_TYPE: bytes(8)}


def select_requested_metrics(
    metrics: JobMetrics, metadata: Collection[tuple[str, str | bytes]]
) -> JobMetrics:
    """Selects the metrics for a call with this metadata.

    Without `ALL_METRICS`, a user's counter without a committed value gets the committed value 0,
    because programs add the committed values of all counters.
    """
    if ALL_METRICS in metadata:
        return metrics
    agents = [str(value) for name, value in metadata if name == "user-agent"]
    prefix = _USER if any("grpc-python" in agent for agent in agents) else _BEAM
    attempted, committed = (
        tuple(info for info in infos if info.urn.startswith(prefix))
        for infos in (metrics.attempted, metrics.committed)
    )
    known = set(map(_get_metric_identity, committed))
    missing = (
        attrs.evolve(info, payload=_ZEROS[info.type])
        for info in attempted
        if info.urn in _COUNTERS and _get_metric_identity(info) not in known
    )
    return JobMetrics(attempted, (*committed, *missing))


def select_fitting_metrics(metrics: JobMetrics, most: int = MOST_BYTES) -> JobMetrics:
    """Selects metrics so that the answer has at most `most` bytes.

    Users' metrics have priority over all other metrics. The committed and the
    attempted value of a metric are either both in the answer or both omitted. The order stays.
    """
    if sum(map(_estimate_size, (*metrics.attempted, *metrics.committed))) <= most:
        return metrics
    sizes: dict[object, int] = {}
    for info in (*metrics.committed, *metrics.attempted):
        sizes[_get_metric_identity(info)] = sizes.get(
            _get_metric_identity(info), 0
        ) + _estimate_size(info)
    free = most - 2 * _estimate_size(_make_omitted_counter(1 << 60))
    told: set[object] = set()
    for key in sorted(sizes, key=_is_system_metric):
        if sizes[key] > free:
            break
        free -= sizes[key]
        told.add(key)
    said = _make_omitted_counter(len(sizes) - len(told))
    return JobMetrics(
        (*(info for info in metrics.attempted if _get_metric_identity(info) in told), said),
        (*(info for info in metrics.committed if _get_metric_identity(info) in told), said),
    )


def _get_metric_identity(info: MetricCell) -> tuple[str, frozenset[tuple[str, str]]]:
    """Returns the identity of a metric, which its committed and its attempted value share."""
    return info.urn, frozenset(info.labels.items())


def _is_system_metric(key: object) -> bool:
    assert isinstance(key, tuple)
    return not key[0].startswith(_USER)


def _estimate_size(info: MetricCell) -> int:
    """Returns an upper bound of a metric's size in an answer, in bytes."""
    texts = [info.urn, info.type, *info.labels, *info.labels.values()]
    size = sum(len(text.encode()) + _FIELD_BYTES for text in texts)
    return size + len(info.payload) + (2 + len(info.labels)) * _FIELD_BYTES


def _make_omitted_counter(count: int) -> MetricCell:
    namespace, name = LEFT_OUT
    labels = {
        urns.LABEL_NAMESPACE: namespace,
        urns.LABEL_NAME: name,
        urns.LABEL_TRANSFORM: "",
    }
    return MetricCell(urns.USER_SUM_INT64, urns.SUM_INT64_TYPE, encode_varint(count), labels)
