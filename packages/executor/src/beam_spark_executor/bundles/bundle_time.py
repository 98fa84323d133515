"""How long a bundle took, as a metric of its stage: it comes with the bundle, and counts if that does."""

from __future__ import annotations

from beam_runner_engine.values.varints import encode_varint
from beam_runner_urns import metrics as metric_urns
from beam_runner_worker.records import MonitoringInfo

_URN = "beam_spark:stage:bundle_msecs:v1"


def bundle_msecs(stage_id: str, elapsed: int) -> MonitoringInfo:
    """The metric of one bundle that took that many milliseconds."""
    value = encode_varint(elapsed)
    payload = encode_varint(1) + value + value + value
    labels = (("STAGE", stage_id),)
    return MonitoringInfo(_URN, metric_urns.DISTRIBUTION_INT64_TYPE, labels, payload)
