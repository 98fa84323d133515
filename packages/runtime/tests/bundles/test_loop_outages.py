"""Tests of a scheduler loop inside a worker process, with a full disk or an unavailable store: no
result is lost or duplicated, and no loop stalls.
"""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any

import attrs
import pytest
from beam_runner_data.state import shard_stores
from beam_runner_engine.scheduler.commands import FinishJob, Outcome
from beam_runner_storage.unavailable import ExternalSystemUnavailable
from loop_jobs import EXPECTED, LOOP_BYTES, PLAN, TRANSFORMS, rig_in_loop, tune
from rig import Rig
from served_process import SECONDS, Serve, nothing
from small_plans import plan_of, stage
from worker_doubles import FakeHarness, FakeWorker, seen_in

from beam_runner_runtime.bundles.loop import TaskLoop
from beam_runner_runtime.bundles.neighbour_wait import OutageRetry
from beam_runner_runtime.channel.messages import LoopFailure, LoopReply, RunBundle, RunLoop

MESSAGES = 8
"""Upper limit of the number of messages that a loop of this job sends."""
AWAY = ExternalSystemUnavailable("the data store at s3://b", "no answer")
FULL = OSError(errno.ENOSPC, "No space left on device")


@attrs.define(eq=False)
class Line:
    """A connection from a loop to the server with a failing store or disk.

    Attributes:
        fails_at: number of the first message that isn't sent.
        times: number of failures.
        said: sent messages.
    """

    fails_at: int
    times: float = float("inf")
    said: list[Any] = attrs.field(factory=list)
    failed: threading.Event = attrs.field(factory=threading.Event)

    def send(self, message: Any) -> None:
        if len(self.said) == self.fails_at and self.times:
            self.times -= 1
            self.failed.set()
            raise AWAY
        self.said.append(message)


def finish(rig: Rig, worker: FakeWorker, said: list[Any]) -> None:
    """Passes all messages to the server and runs the job to its end, whose result is exact."""
    rig.heard(worker, *said)
    rig.coordinator.run_round()
    if rig.ledger.end is None:
        rig.run()
    assert rig.ledger.end == FinishJob(Outcome.DONE)
    assert seen_in(rig.ledger.metrics.infos()) == EXPECTED
    rig.stop()


@pytest.mark.parametrize("number", range(MESSAGES))
def test_scheduler_loop_that_cannot_send_reports_leaves_bundles_to_lanes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    tune(monkeypatch, loop_report_ms=0)
    rig, worker, order = rig_in_loop(tmp_path)
    line = Line(number)
    loop = TaskLoop(order, rig.folder, worker, line.send)
    try:
        assert loop.run_loop() is None
    except ExternalSystemUnavailable:
        assert not any(isinstance(one, LoopReply) for one in line.said)
        line.said.append(LoopFailure(order.loop, str(AWAY)))
    assert len(line.said) <= number + 1 or line.times == float("inf")
    finish(rig, worker, line.said)


@pytest.mark.parametrize("report_ms", [0, 1000])
@pytest.mark.parametrize("number", range(MESSAGES))
def test_scheduler_loop_with_brief_state_outage_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, report_ms: int
) -> None:
    """A part that failed in its middle leaves no data, and loses no data."""
    tune(monkeypatch, loop_report_ms=report_ms)
    rig, worker, order = rig_in_loop(tmp_path)
    write, failures = shard_stores._write_changes, [number]

    def fails_once(*arguments: Any) -> Any:
        failures[0] -= 1
        if failures[0] == -1:
            raise FULL
        return write(*arguments)

    monkeypatch.setattr(shard_stores, "_write_changes", fails_once)
    said: list[Any] = []
    wait = OutageRetry(lambda _: None, SECONDS, lambda: True, rig.folder)
    loop = TaskLoop(order, rig.folder, worker, said.append, wait=wait)
    assert loop.run_loop() is None
    finish(rig, worker, said)


def test_scheduler_loop_with_permanent_state_outage_leaves_bundles_to_lanes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, worker, order = rig_in_loop(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(shard_stores, "_write_changes", lambda *_: raise_(FULL))
        said: list[Any] = []
        with pytest.raises(OSError, match="No space left"):
            TaskLoop(order, rig.folder, worker, said.append).run_loop()
    assert said == []
    finish(rig, worker, [LoopFailure(order.loop, "full")])


def raise_(error: Exception) -> Any:
    raise error


@pytest.mark.parametrize("stage_name", ["read", "count", "end"])
def test_scheduler_loop_with_much_work_ends_after_short_store_outage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage_name: str
) -> None:
    """The running bundle continues in the lane. The server is notified before the reply of the bundle."""
    tune(monkeypatch, loop_bundle_ms=1, loop_source_ms=1)
    rig, worker, order = rig_in_loop(tmp_path)
    line, left = Line(0, times=3), threading.Event()

    def send(message: Any) -> None:
        line.send(message)
        left.set()

    rig.stages[stage_name].during = lambda chunk: left.wait(SECONDS)
    reply = TaskLoop(order, rig.folder, worker, send).run_loop()
    assert line.failed.is_set()
    assert [type(one) for one in line.said] == [LoopReply]
    (loop_reply,) = line.said
    assert reply is not None
    assert loop_reply.running == reply.attempt
    finish(rig, worker, [*line.said, reply])


def test_scheduler_loop_with_much_work_fails_after_long_store_outage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tune(monkeypatch, loop_bundle_ms=1)
    rig, worker, order = rig_in_loop(tmp_path)
    line = Line(0)
    rig.stages["count"].during = lambda chunk: line.failed.wait(SECONDS)
    with pytest.raises(ExternalSystemUnavailable):
        TaskLoop(order, rig.folder, worker, line.send).run_loop()
    assert line.said == []
    finish(rig, worker, [LoopFailure(order.loop, str(AWAY))])


def test_scheduler_loop_ends_immediately_on_request_during_store_outage(tmp_path: Path) -> None:
    """The requesting thread reads messages of the server, and must not wait for a store."""
    rig, worker, order = rig_in_loop(tmp_path)
    began, goes_on = threading.Event(), threading.Event()

    def wait(chunk: Any) -> None:
        began.set()
        goes_on.wait(SECONDS)

    rig.stages["end"].during = wait
    never, said = threading.Event(), list[Any]()

    def send(message: Any) -> None:
        never.wait(SECONDS)
        said.append(message)

    loop = TaskLoop(order, rig.folder, worker, send)
    replies: list[Any] = []
    running = threading.Thread(target=lambda: replies.append(loop.run_loop()), daemon=True)
    running.start()
    assert began.wait(SECONDS)
    loop.request_loop_end()
    goes_on.set()
    never.set()
    running.join(SECONDS)
    assert not running.is_alive()
    last = [one for one in replies if one is not None]
    finish(rig, worker, [*said, *last])


@pytest.mark.parametrize("error", [AWAY, ValueError("of the runner")])
def test_scheduler_loop_that_cannot_start_is_reported_and_lane_continues(
    serve: Serve, tmp_path: Path, error: Exception
) -> None:
    reading = plan_of([stage("read")])
    rig = Rig(tmp_path / "server", reading, {"read": lambda _: {}}, loop_bytes=LOOP_BYTES)
    rig.begin()
    rig.open_lanes()
    order = rig.workers[0].pending.popleft()
    assert isinstance(order, RunLoop)
    served = serve(FakeHarness(nothing), reading)
    served.process._wait._is_wanted = lambda: False  # type: ignore[attr-defined]
    hold = served.process._files._cache.fetch_files
    served.process._files._cache.fetch_files = lambda _: raise_(error)  # type: ignore[method-assign]
    served.tell(order)
    told = served.channel.next()
    while not isinstance(told, LoopFailure):
        told = served.channel.next()
    assert told == LoopFailure(order.loop, f"{type(error).__name__}: {error}")
    served.process._files._cache.fetch_files = hold  # type: ignore[method-assign]
    bundle = rig.ledger.open_bundles[0]
    served.tell(RunBundle(bundle, "1-1-1"))
    assert served.channel.next().attempt.bundle == bundle.number
    rig.stop()


def test_process_of_aborted_scheduler_loop_can_run_its_bundles(tmp_path: Path) -> None:
    rig = Rig(tmp_path, PLAN, TRANSFORMS, loop_bytes=LOOP_BYTES)
    rig.begin()
    rig.open_lanes()
    (worker,) = rig.workers
    order = worker.pending.popleft()
    rig.heard(worker, LoopFailure(order.loop + 1, "of another loop"))
    rig.coordinator.run_round()
    assert not worker.pending
    rig.heard(worker, LoopFailure(order.loop, "OSError: why"))
    rig.coordinator.run_round()
    assert isinstance(worker.pending[0], RunBundle)
    finish(rig, worker, [])
    assert rig.workers == [worker]
