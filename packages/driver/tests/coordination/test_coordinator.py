"""Tests of the coordinator: failed bundles are retried, lost bundles are detected, and only commits count."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import pytest
from beam_runner_engine.scheduler.commands import FailJob, FinishJob, Outcome
from beam_runner_model.process_exits import ProcessExit
from beam_runner_runtime.channel.attempts import Attempt, BundleFailure, UserFailure
from beam_runner_runtime.channel.messages import (
    BundleProgressed,
    BundleReply,
    ExitProcess,
    RunBundle,
    RunFinalizers,
    RunLoop,
)
from beam_runner_worker.errors import BundleError
from rig import NO_LOOP, Rig
from small_jobs import (
    DONE,
    EXPECTED,
    LOOP_BYTES,
    orders,
    rig_of,
    running,
    seen,
    text,
)
from worker_doubles import FakeWorker, attempts_given, seen_in

from beam_runner_driver.lanes.slots import ClusterSlots


@pytest.mark.parametrize("loop_bytes", [NO_LOOP, LOOP_BYTES])
@pytest.mark.parametrize("cores", [1, 3])
def test_job_with_coordinator_finishes(tmp_path: Path, cores: int, loop_bytes: int) -> None:
    rig = rig_of(tmp_path, cores=cores, loop_bytes=loop_bytes)
    rig.run()
    assert rig.ledger.end == DONE
    assert seen(rig) == EXPECTED


def test_coordinator_uses_cores_added_during_job(tmp_path: Path) -> None:
    cores = [1]
    rig = rig_of(tmp_path, limits={"parallelism": 8}, slots=ClusterSlots(cores=lambda: cores[0]))
    assert len(rig.starting) == 1
    rig.coordinator.lanes.queue_bundles(
        [
            attrs.evolve(one, number=one.number + n)
            for n in range(1, 5)
            for one in rig.ledger.open_bundles[:1]
        ]
    )
    assert len(rig.starting) == 1
    cores[0] = 3
    rig.coordinator.run_round()
    assert len(rig.starting) == 3
    cores[0] = 2
    rig.coordinator.handle_lane_end(rig.starting[-1], "")
    rig.coordinator.run_round()
    assert len(rig.starting) == 3


# Failures.


@pytest.mark.parametrize("loop_bytes", [NO_LOOP, LOOP_BYTES])
@pytest.mark.parametrize("attempts", [1, 3])
def test_job_with_failing_user_code_fails(tmp_path: Path, attempts: int, loop_bytes: int) -> None:
    rig = rig_of(tmp_path, loop_bytes=loop_bytes, limits={"user_attempts": attempts})

    def fail(values: list[bytes]) -> Any:
        raise BundleError("Outer/Inner", "ValueError: no", "Traceback of it")

    rig.stages["see"].transform = fail
    rig.run()
    said = text(rig)
    assert said.startswith("ValueError: no [while running 'Outer/Inner']")
    assert "Traceback of it" in said
    assert ("attempt 3" in said) is (attempts == 3)
    assert seen(rig) == {}


@pytest.mark.parametrize("loop_bytes", [NO_LOOP, LOOP_BYTES])
@pytest.mark.parametrize("breaks", [1, 3, 4])
def test_coordinator_retries_failures_outside_user_code(
    tmp_path: Path, breaks: int, loop_bytes: int
) -> None:
    rig = rig_of(tmp_path, loop_bytes=loop_bytes)
    left = [breaks]

    def break_off(chunk: Any) -> None:
        if left[0]:
            left[0] -= 1
            raise OSError("the disk is full")

    rig.stages["read"].during = break_off
    rig.run()
    if breaks < 4:
        assert rig.ledger.end == DONE
        assert seen(rig) == EXPECTED
        return
    said = text(rig)
    assert "'the read step' failed 4 times" in said
    assert "the disk is full" in said


def test_coordinator_with_lost_worker_loses_no_committed_result(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    rig.run(until=lambda: bool(rig.workers) and len(rig.ledger.open_bundles) > 1)
    worker = rig.workers[-1]
    before = attempts_given(worker)[-1]
    worker.pending.clear()
    rig.lose(worker)
    rig.coordinator.run_round()
    assert not rig.ledger.is_open(before)
    assert rig.ledger.is_open(Attempt(before.bundle, before.attempt + 1))
    rig.open_lane(0)
    rig.run()
    assert rig.ledger.end == DONE
    assert seen(rig) == EXPECTED


@pytest.mark.parametrize("loop_bytes", [NO_LOOP, LOOP_BYTES])
@pytest.mark.parametrize("how", ["lost", "ended", "opened again"])
def test_job_whose_workers_always_exit_fails(tmp_path: Path, how: str, loop_bytes: int) -> None:
    """The channel and Spark report the loss in any order."""
    rig = rig_of(tmp_path, loop_bytes=loop_bytes)
    deaths = 0
    while rig.ledger.end is None:
        rig.open_lanes()
        number, worker = max(rig.lanes.items())
        if worker.pending and isinstance(worker.pending[0], (RunBundle, RunLoop)):
            deaths += 1
            worker.pending.clear()
        if how == "ended":
            rig.coordinator.handle_lane_end(number, "")
            rig.lose(worker)
        elif how == "lost":
            rig.lose(worker)
            rig.open_lane(number)
        else:
            rig.open_lane(number)
            rig.lose(worker)
        rig.coordinator.run_round()
        assert deaths <= 5, "the job never ends"
    assert deaths == (4 if loop_bytes == NO_LOOP else 5)
    assert "'the read step' failed 4 times" in text(rig)


def test_job_whose_workers_are_killed_by_system_reports_signal_and_memory(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    while rig.ledger.end is None:
        rig.open_lanes()
        number, worker = max(rig.lanes.items())
        worker.pending.clear()
        worker.end = ProcessExit(-9, lacked_memory=True)
        rig.lose(worker)
        rig.open_lane(number)
        rig.coordinator.run_round()
    assert "was killed by SIGKILL, because the memory" in text(rig)


@pytest.mark.parametrize("loop_bytes", [NO_LOOP, LOOP_BYTES])
def test_job_without_running_spark_tasks_fails(tmp_path: Path, loop_bytes: int) -> None:
    rig = rig_of(tmp_path, loop_bytes=loop_bytes)
    for _ in range(10):
        if rig.ledger.end is not None:
            break
        assert rig.starting, "no process queries Spark again, and the job hangs"
        rig.coordinator.handle_lane_end(rig.starting.pop(0), "no executors")
        rig.coordinator.run_round()
    assert isinstance(rig.ledger.end, FailJob)
    assert "no executors" in rig.ledger.end.reason
    assert "failed to start worker processes" in text(rig)


def test_occasional_lane_failures_do_not_end_job(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    for number in range(8):
        assert rig.starting == [number]
        rig.starting.clear()
        rig.open_lane(number)
        rig.coordinator.handle_lane_end(number, "this one failed")
        rig.coordinator.run_round()
    assert rig.ledger.end is None


# Late replies.


def doubled(worker: FakeWorker, rig: Rig) -> None:
    """Makes the worker reply twice to its next order."""
    order = worker.pending.popleft()
    reply = worker.run(order)
    rig.heard(worker, reply, reply)
    rig.coordinator.run_round()
    rig.heard(worker, reply)


def test_coordinator_counts_duplicate_replies_once(tmp_path: Path) -> None:
    rig = rig_of(tmp_path)
    for _ in range(100):
        if rig.ledger.end is not None:
            break
        rig.open_lanes()
        for worker in rig.workers:
            if worker.pending and isinstance(worker.pending[0], RunBundle):
                doubled(worker, rig)
            else:
                worker.pending.clear()
        rig.coordinator.run_round()
    assert rig.ledger.end == DONE
    assert seen(rig) == EXPECTED


def test_coordinator_ignores_reply_of_abandoned_attempt(tmp_path: Path) -> None:
    """The process was considered lost. The finalizer of the next attempt counts."""
    rig = rig_of(tmp_path)
    for harness in rig.stages.values():
        harness.finalizes = True
    rig.open_lanes()
    (first,) = rig.workers
    order = first.pending.popleft()
    rig.lose(first)
    rig.coordinator.run_round()
    second = rig.open_lane(1)
    rig.coordinator.run_round()
    again = second.pending.popleft()
    assert again.bundle == attrs.evolve(order.bundle, attempt=2)
    # Both processes reply at once, and the reply that counts comes first.
    rig.heard(second, second.run(again))
    rig.heard(first, first.run(order))
    rig.coordinator.run_round()
    assert RunFinalizers((Attempt(order.bundle.number, 2),)) in second.history
    assert not any(isinstance(command, RunFinalizers) for command in first.history)
    rig.run()
    assert seen(rig) == EXPECTED


# Finalization.


@pytest.mark.parametrize("loop_bytes", [NO_LOOP, LOOP_BYTES])
def test_coordinator_finalizes_committed_bundles_once(tmp_path: Path, loop_bytes: int) -> None:
    rig = rig_of(tmp_path, loop_bytes=loop_bytes)
    for harness in rig.stages.values():
        harness.finalizes = True
    told: list[tuple[str, Attempt]] = rig.log
    rig.run()
    for worker in rig.workers:
        while worker.pending:
            rig.obey(worker)
    finalized = Counter(attempt for what, attempt in told if what == "finalize")
    assert set(finalized.values()) == {1}
    for attempt in finalized:
        assert told.index(("commit", attempt)) < told.index(("finalize", attempt))
    assert len(finalized) == sum(len(harness.bundles) for harness in rig.stages.values())


# The end.


@pytest.mark.parametrize("loop_bytes", [NO_LOOP, LOOP_BYTES])
@pytest.mark.parametrize("when", ["before a lane opens", "while it runs"])
def test_cancelled_job_ends(tmp_path: Path, when: str, loop_bytes: int) -> None:
    rig = rig_of(tmp_path, loop_bytes=loop_bytes)
    if when == "while it runs":
        rig.open_lanes()
    rig.coordinator.cancel_job()
    rig.coordinator.run_round()
    if when == "while it runs":
        (worker,) = rig.workers
        # The process of the loop must exit first, because the loop knows more than the ledger.
        assert (ExitProcess() in worker.pending) == (loop_bytes == LOOP_BYTES)
        rig.lose(worker)
        rig.coordinator.run_round()
    assert rig.ledger.end == FinishJob(Outcome.CANCELLED)


def test_running_bundles_are_listed_after_job_failure(tmp_path: Path) -> None:
    rig = rig_of(tmp_path, cores=2)
    rig.run(until=lambda: any(order.bundle.stage == "see" for order in orders(rig)))
    rig.open_lanes()
    one, other = (w for w in rig.workers if any(isinstance(o, RunBundle) for o in w.pending))
    order = one.pending.popleft()
    attempt = order.attempt
    failure = UserFailure("See", "ValueError: no", "trace")
    rig.heard(one, BundleFailure(attempt, failure))
    rig.coordinator.run_round()
    assert isinstance(rig.ledger.end, FailJob)
    assert rig.coordinator.lanes.close_lanes() == [other]


def test_metrics_of_running_bundles_count_as_attempted(tmp_path: Path) -> None:
    rig, worker, order = running(tmp_path)
    attempt = order.attempt
    reply = worker.run(order)
    assert isinstance(reply, BundleReply)
    rig.heard(worker, BundleProgressed(attempt, 0.5, 1, reply.metrics))
    totals = rig.metrics.compute_totals()
    assert (seen_in(totals.committed), seen_in(totals.attempted)) == ({}, EXPECTED)
    rig.heard(worker, reply)
    rig.heard(worker, BundleProgressed(attempt, 0.6, 1, reply.metrics))
    rig.coordinator.run_round()
    totals = rig.metrics.compute_totals()
    assert seen_in(totals.committed) == seen_in(totals.attempted) == EXPECTED


@pytest.mark.parametrize("hours", [-1, 24])
def test_bundle_continues_after_wall_clock_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """A timer fires after its duration, in the same server and in the next server."""
    rig = rig_of(tmp_path)
    seen_before = rig.ledger.processing_time
    right = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: right() + hours * 3_600 * 10**9)
    assert seen_before <= rig.coordinator.clock.now() < seen_before + 60_000
    rig.stop()
    again = rig_of(tmp_path)
    now = again.coordinator.clock.now()
    assert seen_before <= now < seen_before + max(0, hours) * 3_600_000 + 60_000
    monkeypatch.setattr(type(again.ledger), "next_wake", property(lambda _: now + 1_000))
    alarm = again.coordinator.seconds_to_alarm
    assert alarm is not None
    assert alarm <= 1
    again.stop()
