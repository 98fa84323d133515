"""Metrics of a job, grouped by step and stage.

Metrics that a runner doesn't report are None, and aren't displayed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import attrs
from beam_runner_model.bundle_costs import BundleCosts, DurationSummary
from beam_runner_model.jobs import JobMetrics, MetricCell
from beam_runner_model.waits import Wait, WaitKind

from beam_runner_jobservices.figures.samples import URN as SAMPLES
from beam_runner_jobservices.figures.samples import decode_samples
from beam_runner_jobservices.figures.step_tree import StepTree
from beam_runner_jobservices.figures.texts import is_max_timestamp
from beam_runner_jobservices.metric_values import (
    Distribution,
    LatestValue,
    MetricValue,
    decode_metric_value,
)

_COUNT = "beam:metric:element_count:v1"
_BYTES = "beam:metric:sampled_byte_size:v1"
_WALL = "beam:metric:ptransform_execution_time:total_msecs:v1"
_USER = "beam:metric:user:"
_STAGE = "beam_spark:stage:"
_HELD_UP = (WaitKind.SIDE_INPUT, WaitKind.HOLD)
_OWN = (_COUNT, _BYTES, _WALL, "beam:metric:pardo_execution_time:")


@attrs.frozen
class StepFigures:
    """Metrics of a step: the numbers of elements in and out, their mean size, and wall time (ms)."""

    elements_in: int | None = None
    elements_out: int | None = None
    wall: int | None = None
    share: float | None = None
    element_size: float | None = None


@attrs.frozen
class StageFigures:
    """Metrics of a fused stage, if the runner reports stages.

    Watermarks are event times in ms, the lag is in ms, and the start and the last activity are
    wall-clock ms.

    Attributes:
        steps: the ids of the pipeline's steps in the stage.
        backlog_bytes: the size of the input that is in no bundle.
        paused: the number of failed bundles that wait for their next attempt.
        quarantined: the number of elements, groups and timers that went to quarantine.
        waits: the reasons for which the stage waits, except waits for a free worker.
        pending_bytes: the size of the unprocessed input, also in open bundles.
        pending_elements: the number of elements of the unprocessed input.
        bundle_durations: the distribution of the durations of committed bundles.
        slot_seconds: the time for which bundles used a slot.
        cpu_seconds: the CPU time of the bundles' threads; None if the runner doesn't measure it.
        peak_memory_bytes: the largest peak memory of a process that ran bundles of the stage; None if
            the runner doesn't measure it.
    """

    id: str
    name: str
    steps: tuple[str, ...] = ()
    input_watermark: int | None = None
    output_watermark: int | None = None
    backlog_bytes: int | None = None
    open_bundles: int | None = None
    commit_lag: int | None = None
    committed: int | None = None
    failed: int | None = None
    retried: int | None = None
    began: int | None = None
    last: int | None = None
    bundle_msecs: Distribution | None = None
    dropped: int | None = None
    waits: tuple[Wait, ...] = ()
    paused: int | None = None
    quarantined: int | None = None
    pending_bytes: int | None = None
    pending_elements: int | None = None
    bundle_durations: DurationSummary | None = None
    slot_seconds: float | None = None
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None

    @property
    def waiting_bytes(self) -> int | None:
        """The size of the unprocessed input, or of the part that the runner reports."""
        return self.backlog_bytes if self.pending_bytes is None else self.pending_bytes

    @property
    def is_finished(self) -> bool:
        """Whether the stage has processed all of its input. False if the runner doesn't report it."""
        return is_max_timestamp(self.output_watermark) and not self.open_bundles

    @property
    def anchor(self) -> str:
        """The anchor of the stage on the page of stages. Several stages can run one step, so a step is
        no anchor.
        """
        return f"stage-{self.id}"


@attrs.frozen
class UserMetric:
    """A metric of user code.

    `step` is the id of a step. If the metric names a step that the job doesn't have, `step` is that name.
    """

    step: str
    namespace: str
    name: str
    attempted: MetricValue | None = None
    committed: MetricValue | None = None


@attrs.frozen
class OtherMetric:
    """Metric that isn't one of the known metrics of steps, stages or user code."""

    urn: str
    labels: Mapping[str, str]
    value: MetricValue | None


@attrs.frozen
class JobFigures:
    """All metrics of a job. `counts` are numbers of elements by PCollection, and `samples` are some of the elements."""

    steps: Mapping[str, StepFigures] = attrs.field(factory=dict)
    stages: tuple[StageFigures, ...] = ()
    user: tuple[UserMetric, ...] = ()
    other: tuple[OtherMetric, ...] = ()
    counts: Mapping[str, int] = attrs.field(factory=dict)
    samples: Mapping[str, tuple[bytes, ...]] = attrs.field(factory=dict)


def compute_figures(metrics: JobMetrics, tree: StepTree, waits: Sequence[Wait] = ()) -> JobFigures:
    """Groups the metrics of a job by step and stage. Uses attempted values for metrics without
    committed values. `waits` are the reasons for which the job waits.
    """
    infos = metrics.attempted or metrics.committed
    counts: dict[str, int] = defaultdict(int)
    sizes: dict[str, Distribution] = {}
    walls: dict[str, int] = defaultdict(int)
    stages: dict[str, dict[str, MetricCell]] = defaultdict(dict)
    samples: dict[str, tuple[bytes, ...]] = {}
    others = []
    for info in infos:
        if info.urn == _COUNT and (pcollection := info.labels.get("PCOLLECTION")):
            counts[pcollection] += _decode_integer(info)
        elif info.urn == _BYTES and (pcollection := info.labels.get("PCOLLECTION")):
            value = decode_metric_value(info)
            if isinstance(value, Distribution):
                sizes[pcollection] = value
        elif info.urn == _WALL and (step := tree.find_step(info.labels.get("PTRANSFORM", ""))):
            walls[step] += _decode_integer(info)
        elif info.urn.startswith(_STAGE) and "STAGE" in info.labels:
            stages[info.labels["STAGE"]][info.urn.split(":")[2]] = info
        elif info.urn == SAMPLES and "PCOLLECTION" in info.labels:
            samples[info.labels["PCOLLECTION"]] = decode_samples(info)
        elif not info.urn.startswith((_USER, *_OWN)):
            others.append(OtherMetric(info.urn, info.labels, decode_metric_value(info)))
    return JobFigures(
        steps=_compute_step_figures(tree, counts, sizes, walls),
        stages=tuple(_make_stage_figures(key, found, tree, waits) for key, found in stages.items()),
        user=_collect_user_metrics(metrics, tree),
        other=tuple(others),
        counts=dict(counts),
        samples=samples,
    )


def _compute_step_figures(
    tree: StepTree,
    counts: Mapping[str, int],
    sizes: Mapping[str, Distribution],
    walls: Mapping[str, int],
) -> dict[str, StepFigures]:
    total = sum(walls.values())
    summed = dict(walls)
    for key in reversed(list(tree.steps)):  # parts come before composites
        parent = tree.steps[key].parent
        if parent and key in summed:
            summed[parent] = summed.get(parent, 0) + summed[key]
    found = {}
    for key, step in tree.steps.items():
        described = step.description
        main = [p for tag, p in described.inputs.items() if tag not in described.side_inputs]
        wall = summed.get(key)
        outputs = described.outputs.values()
        sampled = [sizes[pcollection] for pcollection in outputs if pcollection in sizes]
        sampled_count = sum(one.count for one in sampled)
        found[key] = StepFigures(
            _sum_metric(main, counts),
            _sum_metric(outputs, counts),
            wall,
            wall / total if wall is not None and total else None,
            sum(one.sum for one in sampled) / sampled_count if sampled_count else None,
        )
    return found


def _sum_metric(pcollections: Iterable[str], counts: Mapping[str, int]) -> int | None:
    known = [counts[pcollection] for pcollection in pcollections if pcollection in counts]
    return sum(known) if known else None


def _make_stage_figures(
    key: str, found: Mapping[str, MetricCell], tree: StepTree, waits: Sequence[Wait]
) -> StageFigures:
    values = {name: decode_metric_value(info) for name, info in found.items()}
    name = next(filter(None, (info.labels.get("PTRANSFORM") for info in found.values())), key)
    told = values.get("transforms")
    names = name.split(" + ")
    if isinstance(told, frozenset) and set(names) != told:
        names = sorted(told)
    msecs, told_costs = values.get("bundle_msecs"), values.get("bundle_costs")
    costs = told_costs if isinstance(told_costs, BundleCosts) else None
    return StageFigures(
        id=key,
        name=name,
        steps=tuple(dict.fromkeys(step for one in names if (step := tree.find_step(one)))),
        **{
            field: _convert_to_int(values.get(field))
            for field in ("input_watermark", "output_watermark", "backlog_bytes", "open_bundles")
        },
        commit_lag=_convert_to_int(values.get("commit_lag")),
        committed=_convert_to_int(values.get("bundles_committed")),
        failed=_convert_to_int(values.get("bundles_failed")),
        retried=_convert_to_int(values.get("bundles_retried")),
        began=_convert_to_int(values.get("began")),
        last=_convert_to_int(values.get("last_at_work")),
        bundle_msecs=msecs if isinstance(msecs, Distribution) else None,
        dropped=_convert_to_int(values.get("dropped_values")),
        waits=tuple(one for one in waits if one.stage == key and one.kind in _HELD_UP),
        paused=_convert_to_int(values.get("paused_bundles")),
        quarantined=_convert_to_int(values.get("quarantined")),
        pending_bytes=_convert_to_int(values.get("pending_bytes")),
        pending_elements=_convert_to_int(values.get("pending_elements")),
        bundle_durations=None if costs is None else costs.durations,
        slot_seconds=None if costs is None else costs.slot_seconds,
        cpu_seconds=None if costs is None else costs.cpu_seconds,
        peak_memory_bytes=None if costs is None else costs.peak_memory_bytes,
    )


def _convert_to_int(value: MetricValue | None) -> int | None:
    if isinstance(value, LatestValue):
        value = value.value
    return int(value) if isinstance(value, int | float) else None


def _collect_user_metrics(metrics: JobMetrics, tree: StepTree) -> tuple[UserMetric, ...]:
    found: dict[tuple[str, str, str], UserMetric] = {}
    for is_committed, infos in ((False, metrics.attempted), (True, metrics.committed)):
        for info in infos:
            if not info.urn.startswith(_USER):
                continue
            label = info.labels.get("PTRANSFORM", "")
            name = (
                tree.find_step(label) or label,
                info.labels.get("NAMESPACE", ""),
                info.labels.get("NAME", ""),
            )
            known = found.get(name) or UserMetric(*name)
            value = decode_metric_value(info)
            found[name] = (
                attrs.evolve(known, committed=value)
                if is_committed
                else attrs.evolve(known, attempted=value)
            )
    return tuple(sorted(found.values(), key=lambda one: (one.step, one.namespace, one.name)))


def _decode_integer(info: MetricCell) -> int:
    value = decode_metric_value(info)
    return value if isinstance(value, int) else 0
