"""Tests of the watchdog: if no process works on an open bundle, the watchdog logs all stacks and recovers the job."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from beam_runner_model.jobs import Importance
from beam_runner_model.observation import StackFrame, ThreadStack
from beam_runner_runtime.channel.messages import ExitProcess, RunBundle, RunLoop, WorkerActivity
from beam_runner_runtime.shutdown.limits import LIMITS
from rig import Rig
from servers import Reporter
from small_jobs import DONE, EXPECTED, LOOP_BYTES, rig_of, seen

from beam_runner_driver.job.watch import JobWatchdog

LIMIT = 0.05
STACK = ThreadStack("host", 7, "loop", (StackFrame("loop.py", 3, "run", "wait()"),))


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "watchdog_look_seconds", 0.0)
    monkeypatch.setattr(LIMITS, "watchdog_seconds", LIMIT)


class Watched:
    """A rig and its watchdog."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.reporter = Reporter()
        self.watch = JobWatchdog("job-1", self.reporter, lambda: [STACK])

    def look(self) -> None:
        """Checks the job repeatedly for more than twice the limit."""
        for _ in range(6):
            self.watch.run_check_if_due(self.rig.coordinator, time.monotonic())
            if self.reporter.messages:
                return
            time.sleep(LIMIT / 2)

    @property
    def texts(self) -> list[str]:
        return [text for _, text, _ in self.reporter.messages]

    def finish(self) -> None:
        self.rig.coordinator.run_round()
        self.rig.run()
        assert self.rig.ledger.end == DONE
        assert seen(self.rig) == EXPECTED
        self.rig.stop()


@pytest.mark.parametrize("loop", [False, True], ids=["lane", "loop"])
@pytest.mark.parametrize("doing", [WorkerActivity.IDLE, WorkerActivity.LOOP, WorkerActivity.ORDER])
def test_watchdog_reassigns_bundle_that_process_ignores(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, loop: bool, doing: WorkerActivity
) -> None:
    watched = Watched(rig_of(tmp_path, **({"loop_bytes": LOOP_BYTES} if loop else {})))
    rig = watched.rig
    rig.begin()
    rig.open_lanes()
    worker = rig.workers[0]
    order = worker.pending.popleft()
    assert isinstance(order, RunLoop if loop else RunBundle)
    worker.doing = doing
    watched.look()
    assert worker.pending.popleft() == ExitProcess()
    (text,) = watched.texts
    assert watched.reporter.messages[0][0] is Importance.WARNING
    assert text.startswith(f"Python worker 1000 on host got a bundle, but {doing.value}")
    assert "This is a defect of the runner" in text
    (record,) = [one for one in caplog.records if one.levelname == "ERROR"]
    assert "thread 'loop' of process 7 on host:\n  loop.py:3 in run: wait()" in record.getMessage()
    worker.doing = WorkerActivity.BUNDLE
    rig.lose(worker)
    watched.finish()


@pytest.mark.parametrize("doing", [WorkerActivity.BUNDLE, WorkerActivity.NEIGHBOUR])
def test_watchdog_does_not_interrupt_process_that_runs_its_bundle(
    tmp_path: Path, doing: WorkerActivity
) -> None:
    watched = Watched(rig_of(tmp_path))
    watched.rig.begin()
    watched.rig.open_lanes()
    worker = watched.rig.workers[0]
    worker.doing = doing
    watched.look()
    assert watched.texts == []
    assert not any(isinstance(one, ExitProcess) for one in worker.pending)
    watched.finish()


def test_watchdog_does_not_interrupt_process_without_recent_heartbeat(tmp_path: Path) -> None:
    watched = Watched(rig_of(tmp_path))
    watched.rig.begin()
    watched.rig.open_lanes()
    worker = watched.rig.workers[0]
    worker.doing, worker.heard = WorkerActivity.IDLE, time.monotonic() - 3600
    watched.look()
    assert watched.texts == []
    watched.finish()


@pytest.mark.parametrize("loop", [False, True], ids=["lane", "loop"])
def test_watchdog_accepts_reply_received_while_job_waits_for_its_journal(
    tmp_path: Path, loop: bool
) -> None:
    watched = Watched(rig_of(tmp_path, **({"loop_bytes": LOOP_BYTES} if loop else {})))
    rig = watched.rig
    rig.begin()
    rig.open_lanes()
    taken = time.monotonic()
    rig.workers[
        0
    ].doing = WorkerActivity.IDLE  # the reply has arrived, and the job waits for its journal
    time.sleep(4 * LIMIT)
    watched.watch.run_check_if_due(rig.coordinator, taken)
    assert watched.texts == []
    assert not any(isinstance(one, ExitProcess) for one in rig.workers[0].pending)
    rig.workers[0].doing = WorkerActivity.BUNDLE
    watched.finish()


@pytest.mark.parametrize("loop", [False, True], ids=["bundles", "loop"])
def test_watchdog_does_not_count_time_in_which_job_waits(tmp_path: Path, loop: bool) -> None:
    watched = Watched(rig_of(tmp_path, **({"loop_bytes": LOOP_BYTES} if loop else {})))
    watched.rig.begin()
    lanes = watched.rig.coordinator.lanes
    lanes._waiting.remove_all_bundles()
    lanes._loop_waits = False
    time.sleep(LIMIT)  # no bundle is committed during this time
    watched.watch.run_check_if_due(watched.rig.coordinator, time.monotonic())
    taken = time.monotonic()
    time.sleep(4 * LIMIT)
    for at in (taken, time.monotonic()):
        watched.watch.run_check_if_due(watched.rig.coordinator, at)
    assert watched.texts == []
    watched.look()
    assert len(watched.texts) == 1
    watched.finish()


def test_watchdog_restarts_bundles_that_no_lane_runs(tmp_path: Path) -> None:
    watched = Watched(rig_of(tmp_path))
    watched.rig.begin()
    watched.rig.coordinator.lanes._waiting.remove_all_bundles()
    watched.look()
    (text,) = watched.texts
    assert text.startswith("open bundles without a process: ")
    watched.finish()


def test_watchdog_aborts_scheduler_loop_that_no_lane_runs(tmp_path: Path) -> None:
    watched = Watched(rig_of(tmp_path, loop_bytes=LOOP_BYTES))
    watched.rig.begin()
    watched.rig.coordinator.lanes._loop_waits = False
    watched.look()
    (text,) = watched.texts
    assert text.startswith("no process runs the loop of this job")
    watched.finish()


def test_watchdog_does_nothing_for_job_without_open_bundles(tmp_path: Path) -> None:
    watched = Watched(rig_of(tmp_path))
    watched.rig.begin()
    watched.rig.run()
    watched.look()
    assert watched.texts == []
    watched.rig.stop()
