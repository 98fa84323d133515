"""Totals of the elements that reached the replaced steps of a shadow run, from the committed counters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from beam_runner_model.bundles import MonitoringInfo
from beam_runner_model.jobs import MetricCell
from beam_runner_model.shadows import SHADOW_NAMESPACE, StepTotals, TimeSlot, TimeSlotTotal
from beam_runner_model.times import MIN_TIMESTAMP
from beam_runner_model.varints import decode_varint
from beam_runner_planner.plan import JobPlan
from beam_runner_planner.updates.views import list_stage_views
from beam_runner_urns import metrics as metric_urns


def compute_step_totals(
    plan: JobPlan, metrics: Iterable[MetricCell | MonitoringInfo], watermarks: Mapping[str, int]
) -> dict[str, StepTotals]:
    """Returns the totals of each step, by full name.

    Args:
        plan: plan of the shadow run.
        metrics: committed metrics.
        watermarks: output watermarks (ms) by stage ID, at the same commit.
    """
    stages = {
        step: view.plan.stage_id
        for view in list_stage_views(plan).values()
        for step in view.transforms
    }
    found: dict[str, dict[TimeSlot, dict[str, int]]] = {}
    for metric in metrics:
        labels: dict[str, str] = dict(metric.labels)
        if labels.get(metric_urns.LABEL_NAMESPACE) != SHADOW_NAMESPACE:
            continue
        kind, start, end = labels[metric_urns.LABEL_NAME].split(":")
        slots = found.setdefault(labels[metric_urns.LABEL_TRANSFORM], {})
        values = slots.setdefault(TimeSlot(int(start), int(end)), {})
        values[kind], _ = decode_varint(metric.payload)
    return {
        step: StepTotals(
            watermarks.get(stage, MIN_TIMESTAMP),
            {slot: TimeSlotTotal(**values) for slot, values in found.get(step, {}).items()},
        )
        for step, stage in stages.items()
    }
