"""Metrics of a stage that a bundle's reply contains; they count only if the bundle is committed."""

from __future__ import annotations

from beam_runner_model.bundles import MonitoringInfo
from beam_runner_model.varints import encode_varint
from beam_runner_urns import metrics as metric_urns


def make_bundle_duration_metric(stage_id: str, elapsed: int) -> MonitoringInfo:
    """Returns the metric for the duration of one bundle, in milliseconds."""
    value = encode_varint(elapsed)
    payload = encode_varint(1) + value + value + value
    return _make_stage_metric(
        "bundle_msecs", metric_urns.DISTRIBUTION_INT64_TYPE, stage_id, payload
    )


def make_dropped_values_metric(stage_id: str, count: int) -> MonitoringInfo:
    """Returns the metric for the number of dropped values.

    A value is dropped if it arrives after its window expired or after the last firing of its
    trigger.
    """
    payload = encode_varint(count)
    return _make_stage_metric("dropped_values", metric_urns.SUM_INT64_TYPE, stage_id, payload)


def _make_stage_metric(name: str, type_: str, stage_id: str, payload: bytes) -> MonitoringInfo:
    return MonitoringInfo(f"beam_spark:stage:{name}:v1", type_, (("STAGE", stage_id),), payload)
