"""Tests of the unprocessed input of stages, which includes the input in open bundles."""

from __future__ import annotations

from pathlib import Path

from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.channel.messages import BundleProgressed
from small_jobs import VALUES, rig_of, running

from beam_runner_driver.reports.pending_input import measure_pending_input


def test_pending_input_includes_unprocessed_part_of_open_bundles(tmp_path: Path) -> None:
    rig, worker, order = running(tmp_path)
    coordinator = rig.coordinator
    (lane,) = coordinator.lanes.list_busy_lanes()
    assert lane.link is not None
    whole = measure_pending_input(rig.ledger, coordinator.lanes.list_busy_lanes())["see"]
    assert whole.elements == len(VALUES)
    assert whole.size >= len(b"".join(VALUES))
    attempt = Attempt.of_bundle(order.bundle)
    coordinator.handle_message(lane.link, BundleProgressed(attempt, 0.5, 7, ()))
    half = measure_pending_input(rig.ledger, coordinator.lanes.list_busy_lanes())["see"]
    assert half.elements == len(VALUES) / 2
    assert half.size < whole.size
    worker.told.appendleft(order)
    rig.run()
    assert measure_pending_input(rig.ledger, ())["see"].elements == 0


def test_pending_input_of_stage_without_input_is_empty(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    assert measure_pending_input(rig.ledger, ())["see"].elements == 0
