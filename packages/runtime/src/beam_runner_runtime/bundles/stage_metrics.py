"""Metrics about a stage in the reply of a bundle. They count only if the bundle is committed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from beam_runner_model.bundles import MonitoringInfo
from beam_runner_model.varints import encode_varint
from beam_runner_urns import metrics as metric_urns

_BY_STEP = "beam_spark:step:quarantined:v1"


def drop_duplicate_counts(
    metrics: Iterable[MonitoringInfo], pcollection: str
) -> tuple[MonitoringInfo, ...]:
    """Returns the metrics without the element count of a stage's input PCollection, which the
    producing stage counts.
    """
    recounted = ("PCOLLECTION", pcollection)
    return tuple(metric for metric in metrics if recounted not in metric.labels)


def make_distribution_metric(name: str, stage_id: str, value: int) -> MonitoringInfo:
    """Returns the metric of a stage that is a distribution of one value."""
    encoded = encode_varint(value)
    payload = encode_varint(1) + encoded + encoded + encoded
    return make_stage_metric(name, metric_urns.DISTRIBUTION_INT64_TYPE, stage_id, payload)


def make_dropped_values_metric(stage_id: str, count: int) -> MonitoringInfo:
    """Returns the metric for the number of dropped values.

    A value is dropped if it arrives after its window expired or after the last firing of its
    trigger.
    """
    payload = encode_varint(count)
    return make_stage_metric("dropped_values", metric_urns.SUM_INT64_TYPE, stage_id, payload)


def make_quarantine_metrics(stage_id: str, steps: Iterable[str]) -> tuple[MonitoringInfo, ...]:
    """Returns the metrics for the number of quarantined units (elements, groups, timers), for the
    stage and for each failed step.

    Args:
        steps: full name of the failed step of each unit.
    """
    counts = Counter(steps)
    kind = metric_urns.SUM_INT64_TYPE
    return (
        make_stage_metric("quarantined", kind, stage_id, encode_varint(counts.total())),
        *(
            MonitoringInfo(_BY_STEP, kind, (("PTRANSFORM", step),), encode_varint(count))
            for step, count in counts.items()
        ),
    )


def make_stage_metric(name: str, type_: str, stage_id: str, payload: bytes) -> MonitoringInfo:
    """Returns a metric of a stage with an encoded value."""
    return MonitoringInfo(f"beam_spark:stage:{name}:v1", type_, (("STAGE", stage_id),), payload)
