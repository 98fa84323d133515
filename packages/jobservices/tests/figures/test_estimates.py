"""Tests of rates, remaining times and lags, which follow from successive samples of a job's metrics."""

from __future__ import annotations

import attrs
import pytest
from beam_runner_model.jobs import JobState
from beam_runner_model.observation import Execution, ObservedBundle

from beam_runner_jobservices.description import (
    PCollectionDescription,
    PipelineDescription,
    StepDescription,
)
from beam_runner_jobservices.figures.estimates import LagTrend, ProgressEstimates, ProgressFigures
from beam_runner_jobservices.figures.progress_texts import describe_estimate, describe_progress
from beam_runner_jobservices.figures.step_metrics import JobFigures, StageFigures, StepFigures
from beam_runner_jobservices.figures.step_tree import StepTree

END = 9_223_372_036_854_775


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def stage(
    name: str,
    *,
    backlog: int = 0,
    pending: int | None = None,
    opened: int = 0,
    is_finished: bool = False,
    began: int | None = None,
    mark: int = 0,
    steps: tuple[str, ...] = (),
) -> StageFigures:
    return StageFigures(
        name,
        name,
        steps,
        output_watermark=END if is_finished else mark,
        backlog_bytes=backlog,
        open_bundles=opened,
        began=began,
        pending_bytes=pending,
        pending_elements=pending,
    )


def bundle(name: str, number: int, *, seconds: float, fraction: float) -> ObservedBundle:
    return ObservedBundle(name, number, 1, seconds=seconds, fraction=fraction)


def tree_of(*, bounded: bool) -> StepTree:
    """Returns a tree of the steps `read` and `write`."""
    steps = {
        "read": StepDescription("read", "Read", outputs={"out": "c"}),
        "write": StepDescription("write", "Write", inputs={"in": "c"}),
    }
    collection = PCollectionDescription("c", "bytes", "global", bounded)
    return StepTree(PipelineDescription(("read", "write"), steps, {"c": collection}, {}))


BATCH, STREAM = tree_of(bounded=True), tree_of(bounded=False)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def estimates(clock: Clock) -> ProgressEstimates:
    return ProgressEstimates(clock, clock)


def test_estimated_rate_is_average_of_last_seconds(
    estimates: ProgressEstimates, clock: Clock
) -> None:
    estimates.record_sample(JobFigures(counts={"c": 0}), BATCH)
    assert estimates.elements_per_second is None
    for second in range(1, 40):
        clock.now = second
        count = 100 * second if second < 20 else 2_000 + 10 * (second - 20)
        estimates.record_sample(JobFigures(counts={"c": count}), BATCH)
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


def test_estimated_time_of_waiting_input_follows_its_decrease(
    estimates: ProgressEstimates, clock: Clock
) -> None:
    for second in range(6):
        clock.now = second
        now = stage("a", backlog=1, opened=9, pending=1_000 - 100 * second)
        estimates.record_sample(JobFigures(stages=(now,)), BATCH)
    assert estimates.estimate_seconds_left([now], ()) == pytest.approx(5)


@pytest.mark.parametrize(
    ("stages", "bundles"),
    [
        ([stage("a", opened=1), stage("b")], [bundle("a", 1, seconds=9, fraction=0.9)]),
        ([stage("a", opened=1)], [bundle("a", 1, seconds=9, fraction=0.0)]),
        ([stage("a", is_finished=True)], []),
        ([stage("a", backlog=5, opened=1)], [bundle("a", 1, seconds=9, fraction=0.9)]),
        ([], []),
    ],
    ids=["no input", "no progress", "all finished", "backlog without rate", "no stages"],
)
def test_estimated_time_is_unknown_without_complete_progress(
    estimates: ProgressEstimates, stages: list[StageFigures], bundles: list[ObservedBundle]
) -> None:
    assert estimates.estimate_seconds_left(stages, bundles) is None


def test_progress_of_batch_job_leaves_out_later_stages_by_name(
    estimates: ProgressEstimates, clock: Clock
) -> None:
    clock.now = 40.0
    running = stage("a", opened=1, pending=50, began=10_000)
    figures = JobFigures(stages=(running, stage("b", pending=8)), counts={"c": 7})
    execution = Execution((bundle("a", 1, seconds=10, fraction=0.5),), slots=4, busy_slots=1)
    estimates.record_sample(figures, BATCH)
    found = estimates.estimate_progress(figures, BATCH, execution, seconds=40.0)
    assert (found.seconds_left, found.share, found.later_stages) == (10.0, 0.75, 1)
    parts = describe_progress(found, JobState.RUNNING)
    left = "about 10 s left without 1 later stage"
    assert parts == ("75 %", left, "50 elements waiting", "1 of 4 slots")
    assert "without 1 later stage" in describe_estimate(found, JobState.RUNNING)
    whole = attrs.evolve(figures, stages=(running,))
    found = estimates.estimate_progress(whole, BATCH, execution, seconds=40.0)
    assert (found.share, describe_progress(found, JobState.RUNNING)[:2]) == (
        0.8,
        ("80 %", "about 10 s left"),
    )


def test_progress_without_estimate_says_so(estimates: ProgressEstimates) -> None:
    figures = JobFigures(stages=(stage("a", opened=1),))
    estimates.record_sample(figures, BATCH)
    found = estimates.estimate_progress(figures, BATCH)
    assert describe_progress(found, JobState.RUNNING) == ("no estimate yet",)
    assert describe_estimate(found, JobState.RUNNING).startswith("No time left can be estimated")


def test_progress_of_stream_has_rates_waiting_elements_and_lag(
    estimates: ProgressEstimates, clock: Clock
) -> None:
    for second in range(0, 61, 5):
        clock.now = second
        figures = JobFigures(
            {"read": StepFigures(None, 1_000 * second), "write": StepFigures(135 * second)},
            (
                stage("r", opened=1, pending=3, steps=("read",), mark=1_000 * second),
                stage("w", opened=9, pending=88_000, steps=("write",), mark=500 * second),
            ),
        )
        estimates.record_sample(figures, STREAM)
    found = estimates.estimate_progress(figures, STREAM)
    assert found.lag_trend is LagTrend.GROWING
    assert describe_progress(found, JobState.RUNNING) == (
        "in 1,000/s",
        "out 135/s",
        "88.0 k elements waiting",
        "30 s behind, growing",
    )
    nothing = attrs.evolve(figures, steps={"read": figures.steps["read"]})
    estimates.record_sample(nothing, STREAM)
    assert (
        describe_progress(estimates.estimate_progress(nothing, STREAM), JobState.RUNNING)[1]
        == "out 0/s"
    )
    assert describe_estimate(found, JobState.RUNNING) == ""
    drained = describe_progress(found, JobState.DRAINING)
    assert drained == ("88.0 k elements left", "no estimate yet")


@pytest.mark.parametrize(
    ("lags", "trend"),
    [
        ([0, 10, 0, 10, 0, 10], LagTrend.STEADY),
        ([50, 40, 30, 20, 10, 0], LagTrend.SHRINKING),
        ([5], None),
    ],
    ids=["windows", "catches up", "too short"],
)
def test_lag_trend_compares_halves_of_last_minute(
    estimates: ProgressEstimates, clock: Clock, lags: list[int], trend: LagTrend | None
) -> None:
    for number, lag in enumerate(lags):
        clock.now = 100 + 10 * number
        figures = JobFigures(stages=(stage("w", mark=int(1000 * (clock.now - lag))),))
        estimates.record_sample(figures, STREAM)
    assert estimates.estimate_progress(figures, STREAM).lag_trend is trend


def test_progress_of_server_without_stages_is_only_a_rate() -> None:
    found = ProgressFigures(elements=9, elements_per_second=1_234.4)
    assert describe_progress(found, JobState.RUNNING) == ("1,234/s in all steps",)
    assert describe_estimate(found, JobState.RUNNING) == ""


def test_progress_contains_cores_that_bundles_used(
    clock: Clock, estimates: ProgressEstimates
) -> None:
    for now, cpu_seconds in ((0.0, 10.0), (5.0, 19.5)):
        clock.now = now
        one = attrs.evolve(stage("a", opened=1), slot_seconds=20.0, cpu_seconds=cpu_seconds)
        figures = JobFigures(stages=(one,))
        estimates.record_sample(figures, BATCH)
    found = estimates.estimate_progress(figures, BATCH)
    assert found.cores == pytest.approx(1.9)
    assert describe_progress(found, JobState.RUNNING)[-1] == "1.9 cores"
    assert describe_progress(found, JobState.DRAINING)[-1] == "1.9 cores"
