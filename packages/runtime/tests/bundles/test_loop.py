"""Tests of the scheduler loop inside a worker process: its results equal the results of lanes, for
any point at which it is left.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from beam_runner_engine.scheduler.commands import FinishJob, Outcome
from beam_runner_engine.scheduler.events import BundleFailed as Failed
from beam_runner_worker.errors import BundleError
from loop_jobs import EXPECTED, LOOP_BYTES, PLAN, TRANSFORMS, rig_in_loop, tune
from rig import NO_LOOP, Rig
from worker_doubles import seen_in

from beam_runner_runtime.bundles.loop import TaskLoop
from beam_runner_runtime.channel.attempts import Attempt, LanePlace, add_lane_to_failure
from beam_runner_runtime.channel.messages import (
    BundleReply,
    LoopProgress,
    LoopReply,
    RunBundle,
    RunLoop,
)
from beam_runner_runtime.tuning import TUNING

SECONDS = 60


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    tune(monkeypatch)


def finish(rig: Rig) -> None:
    rig.coordinator.run_round()
    rig.run()
    assert rig.ledger.end == FinishJob(Outcome.DONE)
    assert seen_in(rig.ledger.metrics.infos()) == EXPECTED
    rig.stop()


@pytest.mark.parametrize("loop_bytes", [NO_LOOP, LOOP_BYTES])
def test_scheduler_loop_inside_task_gives_same_output_as_lanes(
    tmp_path: Path, loop_bytes: int
) -> None:
    rig = Rig(tmp_path, PLAN, TRANSFORMS, loop_bytes=loop_bytes)
    rig.begin()
    finish(rig)


def test_scheduler_loop_can_run_complete_job(tmp_path: Path) -> None:
    rig, worker, order = rig_in_loop(tmp_path)
    (reply,) = worker.loop(order)
    assert isinstance(reply, LoopReply)
    assert (reply.loop, reply.running, reply.outgrown) == (order.loop, None, False)
    rig.heard(worker, reply)
    assert rig.ledger.end == FinishJob(Outcome.DONE)
    finish(rig)


Leave = Callable[[TaskLoop, RunBundle], None]


def leave_after(number: int) -> Leave:
    """Leaves the scheduler loop after the bundle with this number is processed, but before the loop
    gets the bundle's reply.
    """
    left = [number]

    def leave(loop: TaskLoop, order: RunBundle) -> None:
        if not left[0]:
            loop.end_loop()
        left[0] -= 1

    return leave


BUNDLES = 8
"""Upper limit of the number of bundles in the job."""


@pytest.mark.parametrize("report_ms", [0, TUNING.loop_report_ms])
@pytest.mark.parametrize("number", range(BUNDLES))
def test_scheduler_loop_that_ends_during_a_bundle_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, report_ms: int
) -> None:
    """The bundle belongs to the lane: its reply alone reports the changes of its shard."""
    # On a busy machine bundles take longer, and must still stay in the loop.
    patient = dict.fromkeys(("loop_parallel_ms", "loop_bundle_ms", "loop_source_ms"), 60_000)
    tune(monkeypatch, loop_report_ms=report_ms, **patient)
    rig, worker, order = rig_in_loop(tmp_path)
    worker.in_loop = leave_after(number)
    said = worker.loop(order)
    while isinstance(said[0], LoopProgress):
        rig.heard(worker, said.pop(0))
    loop_reply, *rest = said
    rig.heard(worker, loop_reply)
    if loop_reply.running is None:
        assert rest == [] and rig.ledger.end is not None
        return
    assert not any(
        isinstance(e, BundleReply) and e.done.bundle == loop_reply.running.bundle
        for e in loop_reply.entries
    )
    (reply,) = rest
    assert Attempt(reply.done.bundle, reply.done.attempt) == loop_reply.running
    rig.coordinator.run_round()
    rig.heard(worker, reply)
    finish(rig)


@pytest.mark.parametrize("number", range(BUNDLES))
def test_process_lost_after_end_of_its_scheduler_loop_loses_no_result(
    tmp_path: Path, number: int
) -> None:
    """The continued bundle is retried on the state before the bundle."""
    rig, worker, order = rig_in_loop(tmp_path)
    worker.in_loop = leave_after(number)
    loop_reply, *_ = worker.loop(order)
    rig.heard(worker, loop_reply)
    rig.coordinator.run_round()
    if rig.ledger.end is None:
        rig.lose(worker)
        worker.pending.clear()
        rig.coordinator.run_round()
        rig.open_lane(0)
    finish(rig)


def test_process_lost_before_end_of_its_scheduler_loop_repeats_bundles(tmp_path: Path) -> None:
    rig, worker, order = rig_in_loop(tmp_path)
    worker.loop(order)
    rig.lose(worker)
    rig.coordinator.run_round()
    rig.open_lane(0)
    finish(rig)


def test_scheduler_loop_ends_if_a_bundle_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(monkeypatch, loop_bundle_ms=500)
    rig, worker, order = rig_in_loop(tmp_path)
    left = threading.Event()
    rig.stages["count"].during = lambda chunk: left.wait(60)
    said: list[Any] = []

    def hear(reply: LoopReply) -> None:
        said.append(reply)
        left.set()

    reply = TaskLoop(order, rig.folder, worker, hear).run_loop()
    (loop_reply,) = said
    assert loop_reply.outgrown
    assert reply is not None and reply.done.bundle == loop_reply.running.bundle  # type: ignore[union-attr]
    assert len(loop_reply.entries) > 0
    rig.heard(worker, loop_reply, reply)
    finish(rig)


def test_running_scheduler_loop_commits_bundles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(monkeypatch, loop_report_ms=5)
    rig, worker, order = rig_in_loop(tmp_path)
    for harness in rig.stages.values():
        harness.during = lambda chunk: time.sleep(0.01)
    *progress, reply = worker.loop(order)
    assert len(progress) > 1
    assert all(isinstance(one, LoopProgress) and one.entries for one in progress)
    for one in progress:
        rig.heard(worker, one)
        rig.coordinator.run_round()
        assert rig.ledger.end is None
    rig.heard(worker, reply)
    finish(rig)
    assert [type(command) for command in worker.history] == [RunLoop]


def test_scheduler_loop_reports_arrive_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order is correct even if the sending thread is late, or sends only after the end of the
    loop.
    """
    tune(monkeypatch, loop_report_ms=0, loop_watch_seconds=SECONDS)
    rig, worker, order = rig_in_loop(tmp_path)
    *progress, reply = worker.loop(order)
    assert len(progress) > 1
    rig.heard(worker, *progress, reply)
    finish(rig)


@pytest.mark.parametrize("heard", range(BUNDLES))
def test_process_lost_during_its_scheduler_loop_repeats_bundles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: int
) -> None:
    """Reported bundles and their state are retained, and all other bundles are repeated."""
    tune(monkeypatch, loop_report_ms=0)
    rig, worker, order = rig_in_loop(tmp_path)
    *progress, _ = worker.loop(order)
    rig.heard(worker, *progress[:heard])
    rig.lose(worker)
    rig.coordinator.run_round()
    rig.open_lane(0)
    finish(rig)


def test_scheduler_loop_ends_if_data_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(monkeypatch, loop_waiting_bytes=10)
    rig, worker, order = rig_in_loop(tmp_path)
    said = worker.loop(order)
    assert said[0].outgrown and said[0].running is None
    rig.heard(worker, *said)
    finish(rig)


@pytest.mark.parametrize("attempts", [1, 2])
def test_scheduler_loop_reports_failures_as_entries(tmp_path: Path, attempts: int) -> None:
    rig = Rig(tmp_path, PLAN, TRANSFORMS, loop_bytes=LOOP_BYTES, limits={"user_attempts": attempts})
    rig.begin()
    rig.open_lanes()
    (worker,) = rig.workers
    failures = [BundleError("T", "ValueError: once", "trace")]

    def fail_once(chunk: Any) -> None:
        if failures:
            raise failures.pop()

    rig.stages["count"].during = fail_once
    said = worker.loop(worker.pending.popleft())
    failed = [entry for entry in said[0].entries if isinstance(entry, Failed)]
    assert [entry.cause for entry in failed] == ["ValueError: once [while running 'T']\ntrace"]
    rig.heard(worker, *said)
    if attempts == 2:
        finish(rig)
    else:
        expected = add_lane_to_failure(failed[0], LanePlace(0, worker.hello.host, worker.hello.pid))
        assert rig.ledger.end is not None and rig.ledger.last_failure == expected


def test_ended_scheduler_loop_runs_no_further_bundle(tmp_path: Path) -> None:
    rig, worker, order = rig_in_loop(tmp_path)
    said: list[Any] = []
    loop = TaskLoop(order, rig.folder, worker, said.append)
    loop.end_loop()
    loop.end_loop()
    assert loop.run_loop() is None
    assert said == [LoopReply(order.loop, (), None, outgrown=False)]
    assert rig.stages["read"].bundles == []
    rig.heard(worker, *said)
    finish(rig)
