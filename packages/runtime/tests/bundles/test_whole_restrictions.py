"""Tests of the parts of restrictions that a bundle marks as complete: a drain doesn't truncate them."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from beam_runner_data.state.shard_stores import ShardStores
from beam_runner_engine.scheduler.commands import Input
from beam_runner_model.buffers import BufferKind
from beam_runner_model.bundles import BundleSplit, ResidualElement
from sample_buffers import buffer
from small_plans import bundle_of, elements, encoded, plan_of, stage, work_of
from worker_doubles import FakeHarness

from beam_runner_runtime.bundles.bundle import LocalBundle
from beam_runner_runtime.bundles.bundle_data import FolderData
from beam_runner_runtime.channel.messages import BundleReply, RunBundle

PLAN = plan_of([stage("stage", "in", splittable=True)], [buffer("in", BufferKind.STORED)])
CUT = BundleSplit(-1, 1, (encoded(b"primary"),), (ResidualElement(encoded(b"residual")),))
DEFERRED = (ResidualElement(encoded(b"deferred")),)


def start(folder: Path, harness: FakeHarness, *inputs: Input) -> LocalBundle:
    order = RunBundle(bundle_of(*inputs), "1-7-1")
    data = FolderData(folder)
    return LocalBundle(work_of(PLAN, "stage"), order, harness, ShardStores(folder), data)


def harness_with(*splits: BundleSplit) -> FakeHarness:
    return FakeHarness(lambda values: {}, residuals=DEFERRED, splits=list(splits))


def deferred(running: LocalBundle) -> list[bool]:
    """Runs a bundle, and returns the completeness mark of each residual."""
    reply = running.run()
    assert isinstance(reply, BundleReply)
    return [residual.whole for residual in reply.done.residuals]


@pytest.mark.parametrize(("keep", "whole"), [(0.0, False), (0.5, True)])
def test_drain_truncates_residuals_of_checkpoints_only(
    tmp_path: Path, keep: float, whole: bool
) -> None:
    """A checkpoint leaves no work that could be deferred. A deferred element precedes the split."""
    harness = harness_with(CUT)
    running = start(tmp_path, harness, Input(elements("x", b"a")))
    harness.during = lambda chunk: harness.splits and running.split(keep)
    assert deferred(running) == [whole]


@pytest.mark.parametrize("last", [True, False])
def test_drain_does_not_truncate_residuals_of_inputs_that_it_must_not_truncate(
    tmp_path: Path, last: bool
) -> None:
    inputs = Input(elements("x", b"a"), whole=True), Input(elements("y", b"b"), whole=last)
    assert deferred(start(tmp_path, harness_with(), *inputs)) == [last]


def test_drain_does_not_truncate_parts_of_restriction_that_was_split_before(tmp_path: Path) -> None:
    running = start(tmp_path, harness_with(CUT, CUT), Input(elements("x", b"a", b"b")))
    first, second = (running.split(0.5).done for _ in range(2))
    assert [one.whole for one in first.primary] == [True]
    assert [one.whole for one in first.residuals] == [False, False]
    assert [one.whole for one in second.primary] == [True]
    assert [one.whole for one in second.residuals] == [True]


def test_drain_does_not_truncate_parts_of_input_that_it_must_not_truncate(tmp_path: Path) -> None:
    whole = attrs.evolve(Input(elements("x", b"a", b"b")), whole=True)
    done = start(tmp_path, harness_with(BundleSplit(0, 1)), whole).split(0.5).done
    assert [part.whole for part in (*done.primary, *done.residuals)] == [True, True]
