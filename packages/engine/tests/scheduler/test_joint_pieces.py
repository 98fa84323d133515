"""Tests of small inputs that share a bundle: the bundle processes them in order, and idle slots
take over inputs if the bundle is slow.
"""

from __future__ import annotations

import pytest

from beam_runner_engine.scheduler.commands import FinishJob, Input, OpenBundles, SplitBundle
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.errors import GraphError
from beam_runner_engine.scheduler.events import (
    BundleDone,
    Output,
    Progress,
    Residual,
    SplitDone,
    Start,
)
from beam_runner_engine.scheduler.scheduler import Scheduler
from beam_runner_engine.scheduler.specs import GraphSpec, Limits, StageKind, StageSpec

from .samples import data, only, refs

READ = StageSpec("read", ("root",), joint_pieces=True)
PIECES = [data(name, size=10) for name in "abcd"]


def opened(pieces: list[Data], most: int = 40) -> tuple[Scheduler, list[list[str]]]:
    """Returns a scheduler with these data items as input, and the inputs of the scheduler's
    bundles.
    """
    limits = Limits(joint_bytes=most, parallelism=4)
    scheduler = Scheduler(GraphSpec((READ,), ("root",)), limits)
    commands = scheduler.handle_event(Start(roots=tuple(Output("root", piece) for piece in pieces)))
    return scheduler, [refs(bundle) for bundle in only(commands, OpenBundles).bundles]


def test_small_inputs_share_a_bundle_and_large_inputs_do_not() -> None:
    assert opened(PIECES)[1] == [["a", "b", "c", "d"]]
    assert opened(PIECES, most=39)[1] == [["a"], ["b"], ["c"], ["d"]]


def test_inputs_of_a_shared_bundle_move_to_idle_slots_at_the_first_progress_report() -> None:
    scheduler, _ = opened(PIECES)
    assert only(scheduler.handle_event(Progress(0, 1, 0.0, 500)), SplitBundle).fraction == 0.0
    a, *rest = PIECES
    commands = scheduler.handle_event(SplitDone(0, 1, (Input(a),), tuple(map(Residual, rest))))
    assert [refs(bundle) for bundle in only(commands, OpenBundles).bundles] == [["b"], ["c"], ["d"]]
    for number in range(4):
        commands = scheduler.handle_event(BundleDone(number, 1))
    assert only(commands, FinishJob)


def test_inputs_of_a_shared_bundle_without_idle_slots_stay_together() -> None:
    scheduler, _ = opened(PIECES)
    assert scheduler.handle_event(Progress(0, 1, 0.0, 500, takes_turns=True)) == ()


def test_bundle_with_a_single_input_gets_no_split_request() -> None:
    scheduler, _ = opened(PIECES[:1])
    assert scheduler.handle_event(Progress(0, 1, 0.0, 500)) == ()


@pytest.mark.parametrize(
    "stage",
    [
        StageSpec("odd", ("r",), kind=StageKind.STATEFUL, joint_pieces=True),
        StageSpec("odd", ("r",), splittable=True, joint_pieces=True),
        StageSpec("odd", ("r",), whole_input=True, joint_pieces=True),
    ],
    ids=["keyed", "splittable", "whole"],
)
def test_graph_with_shared_bundles_in_an_unsuitable_stage_raises_graph_error(
    stage: StageSpec,
) -> None:
    with pytest.raises(GraphError, match="'odd' can't have joint_pieces"):
        Scheduler(GraphSpec((stage,), ("r",)))
