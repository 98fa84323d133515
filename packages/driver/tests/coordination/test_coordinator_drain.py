"""Tests of a drain: it waits for the loop inside a task, and processes the existing input to its end."""

from __future__ import annotations

from pathlib import Path

import pytest
from beam_runner_engine.scheduler.commands import Bundle, FinishJob, Outcome
from beam_runner_model.bundles import BundleSplit, ResidualElement
from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.channel.messages import (
    BundleProgressed,
    LeaveLoop,
    LoopReply,
    RunBundle,
    RunLoop,
    SplitRequest,
)
from rig import NO_LOOP, Rig
from small_jobs import EXPECTED, LOOP_BYTES, TRANSFORMS, rig_of, running, seen
from small_plans import encoded

DRAINED = FinishJob(Outcome.DRAINED)
CUT = BundleSplit(0, 2, (encoded(b"b1"),), (ResidualElement(encoded(b"b2")),))
"""Split of the values a, b, c and d: b is divided into two parts."""


@pytest.mark.parametrize("loop_bytes", [NO_LOOP, LOOP_BYTES])
def test_coordinator_drain_processes_bounded_input_to_its_end(
    tmp_path: Path, loop_bytes: int
) -> None:
    """The scheduler loop in a worker process can also start after the drain request."""
    rig = rig_of(tmp_path, loop_bytes=loop_bytes)
    rig.coordinator.drain_job()
    rig.coordinator.drain_job()
    rig.run()
    assert seen(rig) == EXPECTED
    # A loop that starts later can finish the job before the drain.
    assert rig.ledger.end in (DRAINED, FinishJob(Outcome.DONE))
    assert loop_bytes == LOOP_BYTES or rig.ledger.end == DRAINED


def test_coordinator_drain_ends_scheduler_loop(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, loop_bytes=LOOP_BYTES)
    rig.open_lanes()
    (worker,) = rig.workers
    order = worker.pending.popleft()
    assert isinstance(order, RunLoop)
    rig.coordinator.drain_job()
    assert isinstance(worker.pending.popleft(), LeaveLoop)
    rig.heard(worker, LoopReply(order.loop, (), None, outgrown=True))
    rig.run()
    assert seen(rig) == EXPECTED
    assert rig.ledger.end == DRAINED


def test_coordinator_drain_truncates_input_of_later_bundles(tmp_path: Path) -> None:
    rig, worker, order = running(tmp_path)
    assert not any(one.truncate for one in order.bundle.inputs)
    rig.coordinator.drain_job()
    rig.coordinator.run_round()
    assert worker.pending.popleft() == SplitRequest(Attempt(1, 1), 0.0)
    rig.lose(worker)
    rig.run()
    (again,) = [
        o
        for known in rig.workers
        for o in known.history
        if isinstance(o, RunBundle) and o.bundle.stage == "see" and o.bundle.attempt == 2
    ]
    assert all(one.truncate for one in again.bundle.inputs)
    assert seen(rig) == EXPECTED
    assert rig.ledger.end == DRAINED


def drained_after_a_cut(place: Path) -> Rig:
    """Returns a rig that drains after the residual of a checkpoint is committed, and before its
    primary is committed.
    """
    rig, worker, order = running(place, cores=2)
    rig.heard(worker, BundleProgressed(order.attempt, 0.01, 60_000, ()))
    rig.coordinator.run_round()
    assert isinstance(worker.pending.popleft(), SplitRequest)
    rig.stages["see"].splits.append(CUT)
    rig.heard(worker, worker.start(order).split(0.0))
    rig.coordinator.run_round()
    rig.run(until=lambda: seen(rig) == {"b2": 1, "c": 1, "d": 1})
    rig.coordinator.drain_job()
    rig.coordinator.run_round()
    assert worker.pending.popleft() == SplitRequest(order.attempt, 0.0)
    return rig


def kinds_of_inputs(*bundles: Bundle) -> list[tuple[bool, bool]]:
    return [(one.truncate, one.whole) for bundle in bundles for one in bundle.inputs]


@pytest.mark.parametrize("restarts", [0, 1, 2])
def test_coordinator_drain_does_not_truncate_checkpoint_residuals(
    tmp_path: Path, restarts: int
) -> None:
    """The bundle is retried after the loss of the worker or of the server."""
    rig = drained_after_a_cut(tmp_path)
    rig.lose(rig.workers[0])
    for _ in range(restarts):
        rig.stop()
        rig = Rig(tmp_path, rig.plan, TRANSFORMS)
        rig.begin()
    rig.coordinator.run_round()
    assert kinds_of_inputs(*rig.ledger.open_bundles) == [(True, False), (False, True)]
    rig.run()
    assert seen(rig) == {"a": 1, "b1": 1, "b2": 1, "c": 1, "d": 1}
    assert rig.ledger.end == DRAINED


def test_coordinator_drain_after_restart_truncates_bundles_opened_before(tmp_path: Path) -> None:
    rig, _, _ = running(tmp_path)
    rig.coordinator.drain_job()
    rig.coordinator.run_round()
    rig.stop()
    after = Rig(tmp_path, rig.plan, TRANSFORMS)
    after.begin()
    assert set(kinds_of_inputs(*after.ledger.open_bundles)) == {(True, False)}
    after.run()
    assert (seen(after), after.ledger.end) == (EXPECTED, DRAINED)
