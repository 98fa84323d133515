"""A drain: it waits for the loop inside a task, and what is given is processed to the end."""

from __future__ import annotations

from pathlib import Path

import pytest
from beam_runner_engine.scheduler import FinishJob, Outcome
from rig import NO_LOOP
from small_jobs import EXPECTED, LOOP_BYTES, rig_of, running, seen

from beam_spark_executor.channel.attempts import Attempt
from beam_spark_executor.channel.messages import (
    LeaveLoop,
    LoopReply,
    RunBundle,
    RunLoop,
    SplitRequest,
)

DRAINED = FinishJob(Outcome.DRAINED)


@pytest.mark.parametrize("loop_bytes", [NO_LOOP, LOOP_BYTES])
def test_what_has_an_end_comes_to_it(tmp_path: Path, loop_bytes: int) -> None:
    """Also where the loop has not begun when the drain is asked for."""
    rig = rig_of(tmp_path, loop_bytes=loop_bytes)
    rig.coordinator.drain()
    rig.coordinator.drain()
    rig.run()
    assert seen(rig) == EXPECTED
    # A loop that has not begun yet may bring the job to its end before the drain.
    assert rig.ledger.end in (DRAINED, FinishJob(Outcome.DONE))
    assert loop_bytes == LOOP_BYTES or rig.ledger.end == DRAINED


def test_a_loop_is_left_for_it(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, loop_bytes=LOOP_BYTES)
    rig.open_lanes()
    (worker,) = rig.workers
    order = worker.told.popleft()
    assert isinstance(order, RunLoop)
    rig.coordinator.drain()
    assert isinstance(worker.told.popleft(), LeaveLoop)
    rig.heard(worker, LoopReply(order.loop, (), None, outgrown=True))
    rig.run()
    assert seen(rig) == EXPECTED
    assert rig.ledger.end == DRAINED


def test_what_comes_into_a_bundle_from_then_on_is_truncated(tmp_path: Path) -> None:
    rig, worker, order = running(tmp_path)
    assert not any(one.truncate for one in order.bundle.inputs)
    rig.coordinator.drain()
    rig.coordinator.work()
    assert worker.told.popleft() == SplitRequest(Attempt(1, 1), 0.0)
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
