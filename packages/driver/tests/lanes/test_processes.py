"""Tests that the worker processes of a job are requested to exit, awaited and never forgotten."""

from __future__ import annotations

import pickle
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from beam_runner_runtime.channel.messages import (
    EndJob,
    ExitProcess,
    ExternalWorkerStarted,
    Heartbeat,
    LaneOpened,
    TearDownDoFns,
    WorkerClosed,
    WorkerHello,
)
from beam_runner_runtime.channel.process_identity import read_process_identity
from beam_runner_runtime.channel.server import WorkerLink
from beam_runner_runtime.channel.vitals import LivenessWriter
from beam_runner_runtime.shutdown.limits import LIMITS

from beam_runner_driver.lanes import processes
from beam_runner_driver.lanes.processes import JobProcesses


def link(pid: int) -> WorkerLink:
    return WorkerLink(WorkerHello("job", "host", pid))


def list_sent(worker: WorkerLink) -> list[Any]:
    worker.close()
    return [pickle.loads(command) for command in worker.iterate_commands()]


def test_job_without_processes_ends_immediately() -> None:
    started = time.monotonic()
    assert JobProcesses(Path()).end_processes(abort=False, seconds=600)
    assert time.monotonic() - started < 60


@pytest.mark.parametrize(("abort", "command"), [(False, EndJob()), (True, ExitProcess())])
def test_end_of_job_notifies_and_awaits_all_processes(abort: bool, command: Any) -> None:
    ours = JobProcesses(Path())
    workers = [link(1), link(2)]
    for worker in workers:
        ours.add_process(worker)
    goers = [threading.Timer(0.1, ours.remove_process, (worker,)) for worker in workers]
    for goer in goers:
        goer.start()
    assert ours.end_processes(abort=abort, seconds=60)
    assert [list_sent(worker) for worker in workers] == [[command], [command]]


def test_processes_can_run_teardown_before_exit() -> None:
    ours = JobProcesses(Path())
    worker = link(1)
    ours.add_process(worker)
    ours.request_tear_down()
    threading.Timer(0.1, ours.remove_process, (worker,)).start()
    assert ours.end_processes(abort=False, seconds=60)
    assert list_sent(worker) == [TearDownDoFns(), EndJob()]


def test_process_that_does_not_exit_is_reported() -> None:
    ours = JobProcesses(Path())
    ours.add_process(link(1))
    assert not ours.end_processes(abort=False, seconds=0.05)


def test_process_that_starts_after_end_of_job_is_dismissed() -> None:
    ours = JobProcesses(Path())
    ours.end_processes(abort=False, seconds=1)
    late = link(3)
    ours.add_process(late)
    assert list_sent(late) == [ExitProcess()]


def test_external_sdk_workers_are_stopped_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[tuple[str, str]] = []
    monkeypatch.setattr(
        processes,
        "stop_external_worker",
        lambda endpoint, worker, *_: stopped.append((endpoint, worker)),
    )
    ours = JobProcesses(Path())
    worker = link(1)
    ours.add_process(worker)
    assert ours.handle_message(worker, ExternalWorkerStarted("pool:1", "sdk-1"))
    ours.remove_process(worker)  # killed before it could stop its SDK itself
    assert ours.end_processes(abort=False, seconds=1)
    ours.end_processes(abort=True, seconds=1)
    assert stopped == [("pool:1", "sdk-1")]


def test_started_bundle_counts_of_current_and_lost_processes_are_summed() -> None:
    ours = JobProcesses(Path())
    first, second = link(1), link(2)
    for one in (first, second):
        ours.add_process(one)
    assert not ours.handle_message(first, LaneOpened(1))
    assert ours.handle_message(first, Heartbeat(begun=(("read", 1), ("see", 1))))
    assert ours.handle_message(second, Heartbeat(begun=(("read", 5),)))
    assert ours.handle_message(first, Heartbeat(begun=(("read", 2),)))
    assert ours.started_bundle_counts == {"read": 7, "see": 1}
    assert ours.handle_message(first, WorkerClosed((("read", 3), ("see", 1))))
    ours.remove_process(first)
    assert ours.started_bundle_counts == {"read": 8, "see": 1}


def test_unexpected_exits_of_worker_processes_are_counted() -> None:
    ours = JobProcesses(Path())
    closed, lost, aborted = link(1), link(2), link(3)
    for one in (closed, lost, aborted):
        ours.add_process(one)
    ours.handle_message(closed, WorkerClosed())
    for one in (closed, lost):
        ours.remove_process(one)
    assert ours.lost_process_count == 1
    ours.end_processes(abort=True, seconds=0.01)
    ours.remove_process(aborted)
    assert ours.lost_process_count == 1


@pytest.fixture
def running() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def silent_link(ours: JobProcesses, process: subprocess.Popen[bytes]) -> WorkerLink:
    worker = WorkerLink(WorkerHello("job", "host", process.pid, read_process_identity(process.pid)))
    ours.add_process(worker)
    assert ours.find_silent_processes() == []
    worker.heard -= LIMITS.silent_seconds
    return worker


def test_unresponsive_process_is_reported_with_its_stage(
    running: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    ours = JobProcesses(tmp_path)
    worker = silent_link(ours, running)
    vitals = LivenessWriter(tmp_path / worker.hello.folder)
    vitals.record_stage("stage-7")
    for _ in range(3):
        (found,) = ours.find_silent_processes()
        assert (found.hello, found.stage) == (worker.hello, "stage-7")
        assert found.seconds > LIMITS.silent_seconds
    assert running.poll() is None  # C code can still return
    worker.heard = time.monotonic()
    assert ours.find_silent_processes() == []


def test_process_without_channel_is_killed(
    running: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    ours = JobProcesses(tmp_path)
    worker = silent_link(ours, running)
    vitals = LivenessWriter(tmp_path / worker.hello.folder)
    for _ in range(round(LIMITS.mute_seconds / LIMITS.beat_seconds)):
        ours.find_silent_processes()
        vitals.count_heartbeat()
    assert running.poll() is None
    vitals.count_heartbeat()
    ours.find_silent_processes()
    assert running.wait(60) == -9
