"""Rates and remaining times follow from successive looks at a job, or are unknown."""

from __future__ import annotations

import pytest
from beam_runner_jobservices.figures.step_metrics import StageFigures
from beam_runner_model.observation import ObservedBundle

from beam_spark_executor.client.estimates import ProgressEstimates, describe_estimates

END = 9_223_372_036_854_775


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def stage(
    name: str, *, backlog: int = 0, opened: int = 0, is_finished: bool = False
) -> StageFigures:
    watermark = END if is_finished else 0
    return StageFigures(
        name, name, output_watermark=watermark, backlog_bytes=backlog, open_bundles=opened
    )


def bundle(name: str, number: int, *, seconds: float, fraction: float) -> ObservedBundle:
    return ObservedBundle(name, number, 1, seconds=seconds, fraction=fraction)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def estimates(clock: Clock) -> ProgressEstimates:
    return ProgressEstimates(clock)


def test_estimated_rate_is_average_of_last_seconds(
    estimates: ProgressEstimates, clock: Clock
) -> None:
    estimates.record_sample(0, ())
    assert estimates.elements_per_second is None
    for second in range(1, 40):
        clock.now = second
        estimates.record_sample(100 * second if second < 20 else 2_000 + 10 * (second - 20), ())
    assert estimates.elements_per_second == 10


def test_estimated_time_of_running_bundles_is_time_of_slowest_bundle(
    estimates: ProgressEstimates,
) -> None:
    bundles = [
        bundle("a", 1, seconds=10, fraction=0.5),
        bundle("a", 2, seconds=10, fraction=0.25),
    ]
    stages = (stage("done", is_finished=True), stage("a", opened=2))
    assert estimates.estimate_seconds_left(stages, bundles) == pytest.approx(30)


def test_estimated_time_of_waiting_bundles_follows_running_bundles(
    estimates: ProgressEstimates,
) -> None:
    bundles = [bundle("a", number, seconds=10, fraction=0.5) for number in range(2)]
    assert estimates.estimate_seconds_left([stage("a", opened=6)], bundles) == pytest.approx(50)


def test_estimated_time_includes_backlog_at_its_rate(
    estimates: ProgressEstimates, clock: Clock
) -> None:
    bundles = [bundle("a", 1, seconds=10, fraction=0.5)]
    estimates.record_sample(0, [stage("a", backlog=1_000, opened=1)])
    assert estimates.estimate_seconds_left([stage("a", backlog=1_000, opened=1)], bundles) is None
    clock.now = 5.0
    now = [stage("a", backlog=500, opened=1)]
    estimates.record_sample(0, now)
    assert estimates.estimate_seconds_left(now, bundles) == pytest.approx(15)


@pytest.mark.parametrize(
    ("stages", "bundles"),
    [
        ([stage("a", opened=1), stage("b")], [bundle("a", 1, seconds=9, fraction=0.9)]),
        ([stage("a", opened=1)], [bundle("a", 1, seconds=9, fraction=0.0)]),
        ([stage("a", is_finished=True)], []),
        ([], []),
    ],
    ids=["a stage without input", "a bundle without progress", "all finished", "no stages"],
)
def test_estimated_time_is_unknown_without_complete_progress(
    estimates: ProgressEstimates, stages: list[StageFigures], bundles: list[ObservedBundle]
) -> None:
    assert estimates.estimate_seconds_left(stages, bundles) is None


@pytest.mark.parametrize(
    ("rate", "left", "text"),
    [
        (None, None, ""),
        (0.2, None, ""),
        (1_234.4, None, ", 1,234/s"),
        (None, 0.3, ", about 1.0 s left"),
        (5, 200.4, ", 5/s, about 3 min 20 s left"),
    ],
)
def test_estimated_times_are_formatted_briefly(
    rate: float | None, left: float | None, text: str
) -> None:
    assert describe_estimates(rate, left) == text
