"""Tests of joint shards: small shards share a bundle, which splits only between shards."""

from __future__ import annotations

import pytest
from beam_runner_model.summary import EMPTY_SUMMARY, ShardSummary

from beam_runner_engine.scheduler.commands import FinishJob, Input, OpenBundles, SplitBundle
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.errors import GraphError, IllegalEvent
from beam_runner_engine.scheduler.events import (
    BundleDone,
    BundleFailed,
    FailureKind,
    Output,
    Progress,
    Residual,
    SplitDone,
    Start,
)
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import GraphSpec, Limits, StageKind, StageSpec

from .samples import data, only, refs

GROUP = StageSpec("group", ("root",), kind=StageKind.GROUPING, whole_input=True, joint_shards=True)
A0, A1 = data("a0", shard=0, size=10), data("a1", shard=0, size=10)
B, C = data("b", shard=1, size=20), data("c", shard=2, size=30)


def opened(*pieces: Data, most: int = 100) -> tuple[Scheduler, tuple[list[str], ...]]:
    """Returns a scheduler with these data items to group, and the inputs of the scheduler's
    bundles.
    """
    scheduler = Scheduler(GraphSpec((GROUP,), ("root",)), Limits(joint_bytes=most))
    commands = scheduler.handle_event(Start(roots=tuple(Output("root", piece) for piece in pieces)))
    return scheduler, tuple(refs(bundle) for bundle in only(commands, OpenBundles).bundles)


@pytest.mark.parametrize(
    ("most", "bundles"),
    [
        (100, (["a0", "a1", "b", "c"],)),
        (69, (["a0", "a1", "b"], ["c"])),
        (39, (["a0", "a1"], ["b"], ["c"])),
        (1, (["a0", "a1"], ["b"], ["c"])),
    ],
)
def test_bundle_with_several_shards_contains_complete_shards(
    most: int, bundles: tuple[list[str], ...]
) -> None:
    scheduler, given = opened(A0, B, A1, C, most=most)
    assert given == bundles
    for bundle in scheduler.open_bundles:
        assert bundle.shard == bundle.inputs[0].data.facts.shard
        commands = scheduler.handle_event(BundleDone(bundle.number, 1, summary=EMPTY_SUMMARY))
    assert only(commands, FinishJob)


def stalled(scheduler: Scheduler) -> SplitBundle:
    """Returns the split request after the first bundle has stalled."""
    for elapsed in (500, 1000):
        scheduler.handle_event(Progress(0, 1, 0.0, elapsed))
    return only(scheduler.handle_event(Progress(0, 1, 0.0, 1500)), SplitBundle)


def test_shards_behind_a_slow_shard_move_to_another_bundle() -> None:
    scheduler, _ = opened(A0, B, C)
    assert stalled(scheduler) == SplitBundle(0, 1, 0.5)
    commands = scheduler.handle_event(SplitDone(0, 1, (Input(A0),), (Residual(B), Residual(C))))
    (rest,) = only(commands, OpenBundles).bundles
    assert (rest.shard, refs(rest)) == (1, ["b", "c"])
    again = only(
        scheduler.handle_event(BundleFailed(0, 1, "lost", FailureKind.OUTSIDE)), OpenBundles
    )
    assert [refs(bundle) for bundle in again.bundles] == [["a0"]]
    assert scheduler.handle_event(BundleDone(rest.number, 1, summary=EMPTY_SUMMARY)) != ()
    assert only(scheduler.handle_event(BundleDone(0, 2, summary=EMPTY_SUMMARY)), FinishJob)


def test_elements_of_shards_returned_by_a_split_stay_on_time() -> None:
    scheduler, _ = opened(A0, B)
    stalled(scheduler)
    scheduler.handle_event(SplitDone(0, 1, (), (Residual(A0), Residual(B))))
    commands = scheduler.handle_event(BundleDone(0, 1, summary=EMPTY_SUMMARY))
    (rest,) = only(commands, OpenBundles).bundles
    assert refs(rest) == ["a0"]
    assert rest.input_watermark == 0


def test_bundle_with_a_single_shard_is_not_split() -> None:
    scheduler, _ = opened(A0, A1)
    for elapsed in (500, 1000, 1500, 30_000):
        assert scheduler.handle_event(Progress(0, 1, 0.0, elapsed)) == ()


def test_split_inside_a_shard_raises_illegal_event() -> None:
    scheduler, _ = opened(A0, A1, B)
    stalled(scheduler)
    with pytest.raises(IllegalEvent, match="divides a shard of the keyed stage 'group'"):
        scheduler.handle_event(SplitDone(0, 1, (Input(A0),), (Residual(A1), Residual(B))))


def test_commit_of_several_shards_with_a_summary_raises_illegal_event() -> None:
    scheduler, _ = opened(A0)
    with pytest.raises(IllegalEvent, match="several shards"):
        scheduler.handle_event(BundleDone(0, 1, summary=ShardSummary({5: 1})))


@pytest.mark.parametrize("kind", [StageKind.GROUPING, StageKind.ORDINARY])
def test_graph_with_shared_shard_bundles_without_complete_input_raises_graph_error(
    kind: StageKind,
) -> None:
    whole = kind is StageKind.ORDINARY
    stage = StageSpec("odd", ("r",), kind=kind, whole_input=whole, joint_shards=True)
    with pytest.raises(GraphError, match="'odd' can't have joint_shards"):
        Scheduler(GraphSpec((stage,), ("r",)))
