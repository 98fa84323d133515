"""Tests of splits and residuals from the view of the coordinator: every element is processed once."""

from __future__ import annotations

from pathlib import Path

import attrs
from beam_runner_engine.scheduler.events import SplitDone
from beam_runner_model.bundles import BundleSplit, ResidualElement
from beam_runner_runtime.channel.messages import (
    BundleProgressed,
    RunBundle,
    SplitReply,
    SplitRequest,
)
from rig import Rig
from small_jobs import (
    DONE,
    EXPECTED,
    TRANSFORMS,
    rig_of,
    running,
    seen,
)
from small_plans import encoded
from worker_doubles import FakeWorker


def ask(rig: Rig, worker: FakeWorker, order: RunBundle) -> SplitRequest:
    """Reports progress of the bundle, so that the scheduler requests a split."""
    attempt = order.attempt
    rig.heard(worker, BundleProgressed(attempt, 0.01, 60_000, ()))
    rig.coordinator.run_round()
    request = worker.pending.popleft()
    assert isinstance(request, SplitRequest) and request.attempt == attempt
    return request


def test_residual_of_split_is_run_by_another_lane(tmp_path: Path) -> None:
    rig, worker, order = running(tmp_path)
    ask(rig, worker, order)
    harness = rig.stages["see"]
    harness.splits.append(BundleSplit(1, 2))
    live = worker.start(order)
    rig.heard(worker, live.split(0.5))
    rig.coordinator.run_round()
    # The harness stops at the split.
    rig.heard(worker, worker.run(attrs.evolve(order, bundle=rig.ledger.open_bundles[0])))
    rig.run()
    assert rig.ledger.end == DONE
    assert seen(rig) == EXPECTED


def test_bundle_that_cannot_be_split_continues(tmp_path: Path) -> None:
    rig, worker, order = running(tmp_path)
    ask(rig, worker, order)
    rig.heard(worker, worker.start(order).split(0.5))
    rig.coordinator.run_round()
    ask(rig, worker, order)
    rig.heard(worker, worker.run(order))
    rig.run()
    assert seen(rig) == EXPECTED


def test_split_response_after_commit_is_ignored(tmp_path: Path) -> None:
    rig, worker, order = running(tmp_path)
    request = ask(rig, worker, order)
    rig.heard(worker, worker.run(order))
    none = SplitDone(request.attempt.bundle, request.attempt.attempt)
    rig.heard(worker, SplitReply(none))
    rig.run()
    assert rig.ledger.end == DONE


def test_process_that_dies_during_split_repeats_its_bundle(tmp_path: Path) -> None:
    rig, worker, order = running(tmp_path)
    ask(rig, worker, order)
    rig.lose(worker)
    rig.coordinator.run_round()
    rig.open_lane(0)
    rig.run()
    assert rig.ledger.end == DONE
    assert seen(rig) == EXPECTED


def test_split_request_of_lost_server_is_dropped(tmp_path: Path) -> None:
    rig, worker, order = running(tmp_path)
    ask(rig, worker, order)
    rig.stop()
    again = Rig(tmp_path, rig.plan, TRANSFORMS)
    again.begin()
    again.open_lanes()
    (worker,) = again.workers
    order = worker.pending.popleft()
    assert isinstance(order, RunBundle)
    assert ask(again, worker, order).attempt.attempt == 2
    again.heard(worker, worker.run(order))
    again.run()
    assert again.ledger.end == DONE
    assert seen(again) == EXPECTED


def test_deferred_residual_is_run_after_its_delay(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    harness = rig.stages["see"]
    harness.residuals = (ResidualElement(encoded(b"later"), delay_ms=50),)
    rig.run(until=lambda: bool(harness.bundles))
    harness.residuals = ()
    rig.run()
    assert rig.ledger.end == DONE
    assert seen(rig) == {**EXPECTED, "later": 1}
