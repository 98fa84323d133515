"""Metrics of user code in Prometheus' text format.

Counters and gauges of Beam are gauges, because user code can decrease a counter of Beam. A distribution is
a summary without quantiles, with its minimum and maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import attrs
from beam_runner_jobservices.figures.step_metrics import UserMetric
from beam_runner_jobservices.metric_values import Distribution, LatestValue, MetricValue

from beam_runner_web.html.job_view import JobView

MOST_METRICS = 1_000
"""Maximum number of metrics of user code for each job."""


@attrs.frozen
class _UserFamily:
    """Family of metrics of user code. `samples` returns pairs of a suffix of the name and a value."""

    name: str
    kind: str
    help: str
    samples: Callable[[MetricValue | None], Sequence[tuple[str, float]]]


def _read_number(value: MetricValue | None) -> Sequence[tuple[str, float]]:
    if isinstance(value, LatestValue):
        value = value.value
    return (("", value),) if isinstance(value, int | float) else ()


def _read_distribution(value: MetricValue | None) -> Sequence[tuple[str, float]]:
    if not isinstance(value, Distribution):
        return ()
    return (("_sum", value.sum), ("_count", value.count))


def _make_extreme_reader(name: str) -> Callable[[MetricValue | None], Sequence[tuple[str, float]]]:
    def read_extreme(value: MetricValue | None) -> Sequence[tuple[str, float]]:
        return (("", getattr(value, name)),) if isinstance(value, Distribution) else ()

    return read_extreme


_FAMILIES = (
    _UserFamily(
        "beam_user_value", "gauge", "Value of a counter or gauge of user code.", _read_number
    ),
    _UserFamily(
        "beam_user_distribution", "summary", "Distribution of user code.", _read_distribution
    ),
    _UserFamily(
        "beam_user_distribution_min",
        "gauge",
        "Minimum of a distribution of user code.",
        _make_extreme_reader("min"),
    ),
    _UserFamily(
        "beam_user_distribution_max",
        "gauge",
        "Maximum of a distribution of user code.",
        _make_extreme_reader("max"),
    ),
)


def render_user_metrics(
    views: Sequence[JobView], format_labels: Callable[..., str]
) -> Iterator[str]:
    """Yields the lines of the metrics that user code reports, with attempted values."""
    for family in _FAMILIES:
        yield f"# HELP {family.name} {family.help}"
        yield f"# TYPE {family.name} {family.kind}"
        for view in views:
            for metric in view.figures.user[:MOST_METRICS]:
                labels = format_labels(
                    job_id=view.id,
                    step=_get_step_name(view, metric),
                    namespace=metric.namespace,
                    name=metric.name,
                )
                for suffix, value in family.samples(metric.attempted):
                    yield f"{family.name}{suffix}{labels} {value}"


def _get_step_name(view: JobView, metric: UserMetric) -> str:
    step = view.tree.steps.get(metric.step)
    return metric.step if step is None else step.name
