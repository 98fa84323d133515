"""Tests of the scheduler loop inside a worker process, from the view of the coordinator: lent,
returned or lost.
"""

from __future__ import annotations

from pathlib import Path

import attrs
from beam_runner_runtime.channel.attempts import Attempt
from beam_runner_runtime.channel.messages import LaneOpened, LoopReply, RunBundle, RunLoop
from rig import Rig
from small_jobs import (
    DONE,
    EXPECTED,
    LOOP_BYTES,
    rig_of,
    seen,
)
from small_plans import plan_of, stage


def test_small_job_runs_in_one_scheduler_loop(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, loop_bytes=LOOP_BYTES)
    rig.run()
    (worker,) = rig.workers
    assert [type(command) for command in worker.history] == [RunLoop]


def test_stable_input_is_committed_before_user_code(tmp_path: Path) -> None:
    """The scheduler loop commits when it ends."""
    stages = [stage("one"), attrs.evolve(stage("two"), stable_input=True)]
    rig = Rig(tmp_path, plan_of(stages), {}, loop_bytes=LOOP_BYTES)
    rig.begin()
    rig.run()
    told = {type(command) for worker in rig.workers for command in worker.history}
    assert RunBundle in told and RunLoop not in told
    assert rig.ledger.end == DONE


def test_bundles_that_scheduler_loop_leaves_waiting_are_run(tmp_path: Path) -> None:
    """Bundles that waited before the start of the scheduler loop are run, too."""
    plan = plan_of([stage(name) for name in ("one", "two", "three")])
    rig = Rig(tmp_path, plan, {}, loop_bytes=LOOP_BYTES)
    rig.begin()
    rig.open_lanes()
    (worker,) = rig.workers
    order = worker.pending.popleft()
    assert isinstance(order, RunLoop)
    first = rig.ledger.open_bundles[0]
    # The loop is left during its first bundle, before any of the three bundles is committed.
    rig.heard(
        worker, LoopReply(order.loop, (), Attempt(first.number, first.attempt), outgrown=True)
    )
    rig.coordinator.run_round()
    rig.heard(worker, worker.run(RunBundle(first, "left-over")))
    rig.run()
    assert rig.ledger.end == DONE


def test_bundles_of_lost_scheduler_loop_are_run_separately(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, loop_bytes=LOOP_BYTES)
    rig.open_lanes()
    (worker,) = rig.workers
    rig.lose(worker)
    rig.coordinator.run_round()
    assert [bundle.attempt for bundle in rig.ledger.open_bundles] == [2]
    again = rig.open_lane(0)
    rig.run()
    assert rig.ledger.end == DONE
    assert seen(rig) == EXPECTED
    assert not any(isinstance(command, RunLoop) for command in again.history)


def test_reports_of_scheduler_loop_that_server_gave_up_are_ignored(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, loop_bytes=LOOP_BYTES)
    rig.open_lanes()
    (worker,) = rig.workers
    said = worker.loop(worker.pending.popleft())
    rig.lose(worker)
    rig.heard(worker, *said)
    rig.coordinator.run_round()
    rig.open_lane(0)
    rig.heard(worker, *said)
    rig.run()
    assert seen(rig) == EXPECTED


def test_lane_opened_twice_runs_one_scheduler_loop(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, loop_bytes=LOOP_BYTES)
    rig.open_lanes()
    (worker,) = rig.workers
    rig.heard(worker, LaneOpened(0))
    rig.coordinator.run_round()
    rig.run()
    assert seen(rig) == EXPECTED
