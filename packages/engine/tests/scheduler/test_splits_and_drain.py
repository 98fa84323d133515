"""Tests of dynamic splits and drains, and of their effects on retried bundles."""

from __future__ import annotations

import pickle
from typing import Any

import attrs
import pytest
from beam_runner_model.facts import DataStatistics
from beam_runner_model.windows import IntervalWindow

from beam_runner_engine.scheduler.commands import (
    Bundle,
    CancelBundles,
    FinishJob,
    Input,
    OpenBundles,
    Outcome,
    ReleaseData,
    SplitBundle,
)
from beam_runner_engine.scheduler.errors import IllegalEvent
from beam_runner_engine.scheduler.events import (
    AttemptsLost,
    BundleDone,
    BundleFailed,
    Cancel,
    Drain,
    Event,
    Output,
    Progress,
    Residual,
    SplitDone,
    Start,
    Tick,
)
from beam_runner_engine.scheduler.policy import DefaultPolicy, Load, RunningBundle
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import GraphSpec, Limits, StageSpec

from .samples import data, only, refs

W0, W1 = IntervalWindow(0, 10), IntervalWindow(10, 20)
READ = GraphSpec((StageSpec("read", ("root",), splittable=True),), ("root",))
LONG = Progress(0, 1, 0.1, 60_000)


def reading(*names: str, limits: Limits | None = None) -> Scheduler:
    """Returns a scheduler whose bundle 0 has these inputs."""
    scheduler = Scheduler(READ, limits or Limits(parallelism=1, user_attempts=2))
    scheduler.handle_event(Start(roots=tuple(Output("root", data(name)) for name in names)))
    assert refs(scheduler.open_bundles[0]) == list(names)
    return scheduler


def test_split_bundle_keeps_its_primary_when_retried() -> None:
    scheduler = reading("a", "b")
    inputs = scheduler.open_bundles[0].inputs
    assert only(scheduler.handle_event(LONG), SplitBundle) == SplitBundle(0, 1, 0.0)
    half = attrs.evolve(inputs[0], data=data("a.1"))
    event = SplitDone(
        0, 1, (half,), (Residual(data("a.2"), watermark=3), Residual(data("b"), untouched=True))
    )
    rest = only(scheduler.handle_event(event), OpenBundles)
    assert [refs(bundle) for bundle in rest.bundles] == [["a.2", "b"]]
    again = only(scheduler.handle_event(BundleFailed(0, 1, "lost")), OpenBundles)
    assert refs(again.bundles[0]) == ["a.1"]
    with pytest.raises(IllegalEvent, match="SplitDone"):
        scheduler.handle_event(SplitDone(0, 2))
    assert only(scheduler.handle_event(BundleDone(0, 2)), ReleaseData).data == (data("a.1"),)
    done = scheduler.handle_event(BundleDone(rest.bundles[0].number, 1))
    assert {one.ref for one in only(done, ReleaseData).data} == {"a", "a.2", "b"}
    assert only(done, FinishJob).outcome is Outcome.DONE


def test_failed_split_changes_only_the_pending_split() -> None:
    scheduler = reading("a")
    scheduler.handle_event(LONG)
    assert pickle.loads(pickle.dumps(scheduler)).open_splits == (SplitBundle(0, 1, 0.0),)
    assert scheduler.handle_event(SplitDone(0, 1)) == ()
    assert scheduler.open_splits == ()
    assert refs(scheduler.open_bundles[0]) == ["a"]
    only(scheduler.handle_event(attrs.evolve(LONG, fraction=0.2)), SplitBundle)


def test_drain_checkpoints_running_and_truncates_pending_work() -> None:
    scheduler = reading("a", "b")
    scheduler.handle_event(
        BundleDone(0, 1, residuals=(Residual(data("a.2")), Residual(data("b.2"), delay=1000)))
    )
    assert refs(scheduler.open_bundles[0]) == ["a.2"]
    commands = scheduler.handle_event(Drain())
    assert only(commands, SplitBundle) == SplitBundle(1, 1, 0.0)
    resumed = only(commands, OpenBundles).bundles[0]
    assert refs(resumed) == ["b.2"]
    assert resumed.inputs[0].truncate
    assert [bundle.draining for bundle in scheduler.open_bundles] == [False, True]
    primary = (attrs.evolve(scheduler.open_bundles[0].inputs[0], data=data("a.2.1")),)
    split = scheduler.handle_event(SplitDone(1, 1, primary, (Residual(data("a.2.2")),)))
    assert only(split, OpenBundles).bundles[0].inputs[0].truncate
    for bundle in scheduler.open_bundles:
        commands = scheduler.handle_event(BundleDone(bundle.number, 1))
    assert only(commands, FinishJob).outcome is Outcome.DRAINED


def test_truncated_residual_is_not_truncated_again() -> None:
    scheduler = reading("a", "b", limits=Limits(parallelism=4, bundles_per_stage=1))
    scheduler.handle_event(BundleDone(0, 1, residuals=(Residual(data("c")), Residual(data("d")))))
    scheduler.handle_event(Drain())
    scheduler.handle_event(BundleDone(1, 1, residuals=(Residual(data("e")), Residual(data("f")))))
    (truncated,) = scheduler.open_bundles
    assert [(one.data.ref, one.truncate) for one in truncated.inputs] == [("e", True), ("f", True)]
    stalled = Progress(truncated.number, 1, 0.0, 10_000)
    only(scheduler.handle_event(stalled), SplitBundle)
    residuals = (Residual(data("e.2")), Residual(data("f"), untouched=True))
    scheduler.handle_event(SplitDone(truncated.number, 1, truncated.inputs[:1], residuals))
    scheduler.handle_event(BundleDone(truncated.number, 1))
    (last,) = scheduler.open_bundles
    assert [(one.data.ref, one.truncate) for one in last.inputs] == [("e.2", False), ("f", True)]


def test_draining_bundle_is_truncated_when_retried() -> None:
    scheduler = reading("a")
    only(scheduler.handle_event(Drain()), SplitBundle)
    scheduler.handle_event(SplitDone(0, 1))
    assert only(scheduler.handle_event(Progress(0, 1, 0.1, 1)), SplitBundle).fraction == 0.0
    again = only(scheduler.handle_event(BundleFailed(0, 1, "lost")), OpenBundles).bundles[0]
    assert [(one.data.ref, one.truncate) for one in again.inputs] == [("a", True)]
    assert scheduler.handle_event(Progress(0, 2, 0.1, 1)) == ()


def test_cancelled_job_stops_running_bundles() -> None:
    scheduler = reading("a")
    commands = scheduler.handle_event(Cancel())
    assert commands == (CancelBundles(((0, 1),)), FinishJob(Outcome.CANCELLED))


def test_residual_data_returned_twice_is_processed_twice() -> None:
    """Checks that the scheduler doesn't join data that could overlap, because only the caller knows
    the elements.
    """
    scheduler = reading("a")
    whole = Residual(data("a", windows=(W0, W1)))
    part = Residual(data("a", windows=(W0, W1)), windows=frozenset({W0}))
    again = only(scheduler.handle_event(BundleDone(0, 1, residuals=(whole, part))), OpenBundles)
    assert sum(len(bundle.inputs) for bundle in again.bundles) == 2
    number = again.bundles[0].number
    for bundle in again.bundles[1:]:
        scheduler.handle_event(BundleDone(bundle.number, 1))
    parts = tuple(attrs.evolve(part, windows=frozenset({window})) for window in (W0, W1))
    joined = only(scheduler.handle_event(BundleDone(number, 1, residuals=parts)), OpenBundles)
    assert [bundle.inputs[0].windows for bundle in joined.bundles] == [None]
    number = joined.bundles[0].number
    parts = tuple(attrs.evolve(one, estimator_state=n) for n, one in enumerate(parts))
    apart = only(scheduler.handle_event(BundleDone(number, 1, residuals=parts)), OpenBundles)
    assert sum(len(bundle.inputs) for bundle in apart.bundles) == 2


def facts(*sizes: int) -> list[DataStatistics]:
    return [DataStatistics(1, size) for size in sizes]


@pytest.mark.parametrize(
    ("sizes", "most", "load", "counts"),
    [
        ([10], 4, Load(0, 4), [1]),
        ([10, 10, 10, 10], 4, Load(4, 4), [4]),
        ([10, 10, 10, 10], 4, Load(2, 4), [2, 2]),
        ([10, 10, 10, 10], 1, Load(0, 4), [4]),
        ([90, 10, 10, 10], 4, Load(2, 4), [1, 3]),
        ([0, 0, 0], 8, Load(0, 2), [1, 2]),
        ([100, 100, 100], 8, Load(4, 4), [1, 1, 1]),
        ([1, 1, 400], 2, Load(0, 2), [2, 1]),
    ],
)
def test_initial_split_fills_bundles_to_the_target_size(
    sizes: list[int], most: int, load: Load, counts: list[int]
) -> None:
    assert DefaultPolicy(bundle_bytes=100).plan_initial_split(facts(*sizes), most, load) == counts


@pytest.mark.parametrize(
    ("sizes", "counts"), [([10, 10, 10], [3]), ([100, 100, 100], [1, 1, 1]), ([50, 50, 50], [2, 1])]
)
def test_initial_split_without_spreading_creates_no_bundles_for_idle_slots(
    sizes: list[int], counts: list[int]
) -> None:
    policy = DefaultPolicy(bundle_bytes=100, spreads=False)
    assert policy.plan_initial_split(facts(*sizes), 8, Load(0, 4)) == counts


@pytest.mark.parametrize(
    ("changes", "load", "fraction"),
    [
        ({}, Load(1, 2), None),
        ({"fraction": 0.25, "elapsed": 1_000}, Load(1, 2), 0.5),
        ({"fraction": 0.25, "elapsed": 1_000}, Load(2, 2), None),
        ({"fraction": 0.9, "elapsed": 1_000}, Load(1, 2), None),
        ({"stalled": 2}, Load(1, 2), 0.5),
        ({"elapsed": 10_000}, Load(2, 2), 0.0),
        ({"elapsed": 10_000, "fraction": 0.25}, Load(1, 2), 0.0),
        ({"elapsed": 10_000, "stalled": 2}, Load(1, 2), 0.0),
        ({"elapsed": 10_000, "stalled": 2, "splittable": False}, Load(1, 2), 0.5),
        ({"elapsed": 50, "lingers": True}, Load(1, 2), 0.0),
        ({"elapsed": 50, "lingers": True, "splittable": False}, Load(1, 2), None),
        ({"elapsed": 10_000, "splittable": False}, Load(2, 2), None),
    ],
)
def test_dynamic_split_depends_on_progress_and_load(
    changes: dict[str, Any], load: Load, fraction: float | None
) -> None:
    bundle = attrs.evolve(RunningBundle("read", 0.0, 0, 0, True), **changes)
    assert DefaultPolicy().plan_dynamic_split(bundle, load) == fraction


@pytest.mark.parametrize(
    ("changes", "fraction"),
    [({}, None), ({"elapsed": 10_000}, 0.0), ({"splittable": False}, 0.5)],
)
def test_split_policy_without_halving_only_checkpoints_restrictions(
    changes: dict[str, Any], fraction: float | None
) -> None:
    bundle = attrs.evolve(RunningBundle("read", 0.0, 0, 5, True), **changes)
    policy = DefaultPolicy(halves_restrictions=False)
    assert policy.plan_dynamic_split(bundle, Load(1, 2)) == fraction


def test_stalled_bundle_is_split() -> None:
    scheduler = reading("a", limits=Limits(parallelism=2))
    for _ in range(2):
        assert scheduler.handle_event(Progress(0, 1, 0.0, 5)) == ()
    assert only(scheduler.handle_event(Progress(0, 1, 0.0, 5)), SplitBundle).fraction == 0.5


def test_bundle_in_a_shared_interpreter_is_not_split() -> None:
    scheduler = reading("a", limits=Limits(parallelism=2))
    for _ in range(4):
        assert scheduler.handle_event(Progress(0, 1, 0.0, 5, takes_turns=True)) == ()
    assert only(scheduler.handle_event(Progress(0, 1, 0.0, 5)), SplitBundle).fraction == 0.5


def cut_in_two(scheduler: Scheduler, *kept: str) -> None:
    """Checkpoints bundle 0 inside its last input "x". The bundle keeps the inputs `kept` before it."""
    only(scheduler.handle_event(LONG), SplitBundle)
    first = [one for one in scheduler.open_bundles[0].inputs if one.data.ref in kept]
    primary = (*first, Input(data("x.1"), whole=True))
    scheduler.handle_event(SplitDone(0, 1, primary, (Residual(data("x.2")),)))


def parts(bundle: Bundle) -> list[tuple[Any, bool, bool]]:
    return [(one.data.ref, one.truncate, one.whole) for one in bundle.inputs]


@pytest.mark.parametrize("lost", [BundleFailed(0, 1, "lost"), AttemptsLost()])
def test_checkpoint_primary_is_not_truncated_when_retried(lost: Event) -> None:
    scheduler = reading("x")
    cut_in_two(scheduler)
    drained = scheduler.handle_event(Drain())
    assert only(drained, SplitBundle).bundle == 1
    scheduler.handle_event(lost)
    assert scheduler.open_bundles[0].attempt == 2
    assert parts(scheduler.open_bundles[0]) == [("x.1", False, True)]
    assert scheduler.handle_event(Progress(0, 2, 0.1, 1)) == ()


def test_restrictions_of_lost_attempts_are_truncated_in_a_drain() -> None:
    scheduler = reading("a", "b")
    scheduler.handle_event(Drain())
    (again,) = only(scheduler.handle_event(AttemptsLost()), OpenBundles).bundles
    assert (again.attempt, parts(again)) == (2, [("a", True, False), ("b", True, False)])
    assert scheduler.open_splits == ()


def test_lost_attempts_do_not_count_as_failures() -> None:
    scheduler = reading("a", limits=Limits(user_attempts=1, outside_attempts=1))
    for attempt in range(2, 7):
        again = only(scheduler.handle_event(AttemptsLost()), OpenBundles)
        assert again.bundles[0].attempt == attempt
    assert only(scheduler.handle_event(BundleDone(0, 6)), FinishJob).outcome is Outcome.DONE


def test_checkpoint_primary_is_retried_in_a_bundle_without_other_restrictions() -> None:
    scheduler = reading("a", "x")
    cut_in_two(scheduler, "a")
    again = only(scheduler.handle_event(BundleFailed(0, 1, "lost")), OpenBundles)
    assert [(b.number, b.attempt, *parts(b)) for b in again.bundles] == [
        (0, 2, ("x.1", False, True)),
        (2, 1, ("a", False, False)),
    ]
    scheduler.handle_event(BundleDone(0, 2))
    scheduler.handle_event(BundleDone(1, 1))
    assert only(scheduler.handle_event(BundleDone(2, 1)), FinishJob).outcome is Outcome.DONE


def test_restrictions_exempt_from_a_drain_get_separate_bundles() -> None:
    scheduler = reading("x", limits=Limits(bundles_per_stage=2))
    rest = (Residual(data("x.1.2"), delay=5, whole=True), Residual(data("y"), delay=5))
    scheduler.handle_event(BundleDone(0, 1, residuals=rest))
    resumed = only(scheduler.handle_event(Tick(5)), OpenBundles)
    assert [parts(bundle) for bundle in resumed.bundles] == [
        [("x.1.2", False, True)],
        [("y", False, False)],
    ]


def test_restrictions_exempt_from_a_drain_keep_their_delay() -> None:
    scheduler = reading("x")
    whole = Residual(data("x.2"), delay=5, whole=True)
    scheduler.handle_event(BundleDone(0, 1, residuals=(whole, Residual(data("x.3"), delay=5))))
    drained = scheduler.handle_event(Drain())
    assert parts(only(drained, OpenBundles).bundles[0]) == [("x.3", True, False)]
    assert scheduler.next_wake == 5
    later = only(scheduler.handle_event(Tick(5)), OpenBundles)
    assert [parts(bundle) for bundle in later.bundles] == [[("x.2", False, True)]]


def test_residual_of_a_truncated_restriction_keeps_its_delay() -> None:
    scheduler = reading("x")
    scheduler.handle_event(BundleDone(0, 1, residuals=(Residual(data("x.2"), delay=5),)))
    drained = only(scheduler.handle_event(Drain()), OpenBundles)
    assert parts(drained.bundles[0]) == [("x.2", True, False)]
    polls = Residual(data("x.3"), delay=50, whole=True)
    done = scheduler.handle_event(BundleDone(1, 1, residuals=(polls,)))
    assert not any(isinstance(command, OpenBundles) for command in done)
    again = only(scheduler.handle_event(Tick(50)), OpenBundles)
    assert parts(again.bundles[0]) == [("x.3", False, True)]
