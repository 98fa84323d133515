"""Tests that kill each kind of process in each state, and compare detectors and outcomes with the table.

The table is `beam_runner_runtime.shutdown.kills`.
``packages/runtime/tests/shutdown/test_killed_workers.py`` covers states that differ only in the
channel. No test checks a duration. Instead, `server_with_limits.py` raises the limit of a component
that must not detect the loss to ten minutes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import apache_beam as beam
import pytest
import shutdown_jobs
from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from beam_runner_runtime.shutdown.detections import Detector
from beam_runner_runtime.shutdown.kills import KILLS, KillRule
from beam_runner_runtime.shutdown.states import (
    ForkServerState,
    HarnessState,
    LaneState,
    ProgramState,
    ReaperState,
    ServerState,
    WorkerState,
)
from harness_commands import environment_flags
from job_server import WITHOUT_LOOP, JobServerProcess
from jobs import Job, Pipelines, pickle_by_value
from processes import FORKED, find_marked_processes, parent_process
from shutdown_jobs import DeferRest, WaitOnce, batch
from waiting import wait_until, wait_until_gone

SECONDS = 120.0
FLAGS = ("--without-spark", "2", "--log-level", "info")
LIMITED = (str(Path(__file__).parents[1] / "support" / "server_with_limits.py"),)
NEVER = 600.0
IN_THE_CHANNEL = {
    WorkerState.WORKING,
    WorkerState.GIVING_UP,
    WorkerState.TEARING_DOWN,
    WorkerState.CLOSED,
    WorkerState.ABORTING,
}
"""States that ``test_killed_workers.py`` covers."""
OF_THE_FORK_SERVER = {ForkServerState.IMPORTING}
"""``test_placement.py`` kills a fork server that imports."""


@pytest.fixture(autouse=True, scope="module")
def _by_value() -> None:
    pickle_by_value(shutdown_jobs.__name__)


@contextmanager
def running(
    *flags: str, program: tuple[str, ...] = (), **limits: float
) -> Iterator[JobServerProcess]:
    with tempfile.TemporaryDirectory(prefix="t", ignore_cleanup_errors=True) as folder:
        environment = {"BEAM_TEST_LIMITS": json.dumps(limits)}
        server = JobServerProcess(
            Path(folder), *FLAGS, *flags, environment=environment, program=program or LIMITED
        )
        try:
            yield server
        finally:
            server.kill()


@pytest.fixture(scope="module")
def server() -> Iterator[JobServerProcess]:
    with running() as found:
        yield found


def row_of(state: object) -> KillRule:
    (row,) = [row for row in KILLS if row.state is state]
    return row


def forked(server: JobServerProcess) -> list[int]:
    return [pid for pid, command in server.processes().items() if command == FORKED]


def reaper_of(server: JobServerProcess) -> int:
    """Returns the only forked process whose parent is the server."""
    (found,) = [pid for pid in forked(server) if parent_process(pid) == server.process.pid]
    return found


def fork_server_of(server: JobServerProcess) -> int:
    reaper = reaper_of(server)
    (found,) = [pid for pid in forked(server) if parent_process(pid) == reaper]
    return found


def workers_of(server: JobServerProcess) -> set[int]:
    fork_server = fork_server_of(server)
    return {pid for pid in forked(server) if parent_process(pid) == fork_server}


def noticed(server: JobServerProcess, since: int) -> set[Detector]:
    lines = server.log[since:]
    return {one for one in Detector if any(f"{one.name} (" in line for line in lines)}


def check_notices(
    server: JobServerProcess, since: int, state: object, *, at_least: bool = False
) -> None:
    """Waits until all logging detectors of the row have logged, and checks that no other detector has logged."""
    expected = {one for one in row_of(state).detectors if one.value.is_logged}
    wait_until(
        lambda: expected <= noticed(server, since),
        SECONDS,
        lambda: f"{state}: {expected - noticed(server, since)} in {server.log[since:]}",
    )
    if not at_least:
        assert noticed(server, since) == expected


def submit(server: JobServerProcess, step: WaitOnce, *flags: str) -> Job:
    pipelines = Pipelines(server.address, "", flags)
    pipeline = pipelines.new()
    batch(pipeline, step)
    return pipelines.job(pipeline)


def waiting_process(folder: Path, name: str) -> int:
    file = folder / name
    wait_until(lambda: file.exists() and file.read_text(), SECONDS, f"user code waits in {name}")
    return int(file.read_text())


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def test_every_row_of_the_kill_table_has_a_test() -> None:
    here = {
        *(WorkerState.STANDING_BY, WorkerState.ENDING),
        *(LaneState.BUNDLE, LaneState.LOOP, LaneState.IDLE, LaneState.STARTING),
        *(HarnessState.STARTING, HarnessState.WORKING, HarnessState.ENDING),
        *(ForkServerState.READY, ForkServerState.STOPPING),
        *(ReaperState.WATCHING, ReaperState.ENDING),
        *(ServerState.STARTING, ServerState.SERVING, ServerState.STOPPING),
        ProgramState.WORKING,
    }
    assert here | IN_THE_CHANNEL | OF_THE_FORK_SERVER == {row.state for row in KILLS}


@pytest.mark.parametrize("state", [LaneState.STARTING, WorkerState.STANDING_BY])
def test_killed_standby_worker_is_replaced(server: JobServerProcess, state: object) -> None:
    """The first lane of a job starts in the standby process, and a starting lane is in the same process."""
    wait_until(lambda: workers_of(server), SECONDS, "a process stands by")
    since, workers = len(server.log), workers_of(server)
    for worker in workers:
        kill(worker)
    check_notices(server, since, state)
    wait_until(lambda: workers_of(server) - workers, SECONDS, "another process stands by")


@pytest.mark.parametrize("state", [LaneState.LOOP, LaneState.BUNDLE])
def test_killed_busy_worker_is_detected_and_its_bundle_runs_again(
    state: LaneState, tmp_path: Path
) -> None:
    program = WITHOUT_LOOP if state is LaneState.BUNDLE else LIMITED
    with running(program=program) as server:
        job = submit(server, WaitOnce(tmp_path, "process"))
        worker, since = waiting_process(tmp_path, "process"), len(server.log)
        kill(worker)
        check_notices(server, since, state)
        assert job.wait(SECONDS) is JobState.DONE


def test_killed_worker_without_a_bundle_is_detected(
    server: JobServerProcess, tmp_path: Path
) -> None:
    pipelines = Pipelines(server.address, "", ["--streaming"])
    pipeline = pipelines.new()
    _ = pipeline | beam.Create([10]) | beam.ParDo(DeferRest(tmp_path))
    job = pipelines.job(pipeline)
    worker = waiting_process(tmp_path, "idle")
    with JobClient(server.address) as client:
        wait_until(
            lambda: not client.get_execution(job.job_id).bundles, SECONDS, "the lane is idle"
        )
    since = len(server.log)
    kill(worker)
    check_notices(server, since, LaneState.IDLE)
    job.cancel()
    assert job.wait(SECONDS) is JobState.CANCELLED


def test_killed_worker_in_teardown_is_detected_and_the_job_finishes(tmp_path: Path) -> None:
    with running(teardown_seconds=NEVER) as server:
        job = submit(server, WaitOnce(tmp_path, "teardown"))
        worker, since = waiting_process(tmp_path, "teardown"), len(server.log)
        kill(worker)
        check_notices(server, since, WorkerState.ENDING)
        assert job.wait(SECONDS) is JobState.DONE


@pytest.mark.parametrize(
    ("state", "where"), [(HarnessState.WORKING, "process"), (HarnessState.ENDING, "teardown")]
)
def test_killed_harness_is_detected_by_its_worker(
    server: JobServerProcess, boot: Path, tmp_path: Path, state: HarnessState, where: str
) -> None:
    since = len(server.log)
    job = submit(server, WaitOnce(tmp_path, where), *environment_flags(boot)["PROCESS"])
    kill(waiting_process(tmp_path, where))
    assert job.wait(SECONDS) is JobState.DONE
    assert Detector.HARNESS in row_of(state).detectors
    assert not noticed(server, since) & {Detector.CHANNEL, Detector.WORKER_EXIT, Detector.TEARDOWN}


def test_harness_killed_before_it_connects_is_restarted(
    server: JobServerProcess, boot: Path, tmp_path: Path
) -> None:
    command = tmp_path / "command"
    begun = tmp_path / "begun"
    command.write_text(
        f'#!/bin/sh\nif [ ! -e {begun} ]; then echo $$ > {begun}; exec sleep {NEVER}; fi\nexec {boot} "$@"\n'
    )
    command.chmod(0o755)
    job = submit(server, WaitOnce(tmp_path, ""), *environment_flags(command)["PROCESS"])
    wait_until(lambda: begun.exists() and begun.read_text(), SECONDS, "the command runs")
    kill(int(begun.read_text()))
    assert job.wait(SECONDS) is JobState.DONE
    assert Detector.HARNESS_START in row_of(HarnessState.STARTING).detectors


PROGRAM = """
import sys
from pathlib import Path
sys.path[:0] = [{kills!r}, {support!r}]
import apache_beam as beam
from jobs import Pipelines
from shutdown_jobs import WaitOnce, batch
pipelines = Pipelines({address!r}, "LOOPBACK", ["--environment_type=LOOPBACK"])
pipeline = pipelines.new()
batch(pipeline, WaitOnce(Path({folder!r}), "process"))
job = pipelines.job(pipeline)
Path({folder!r}, "job").write_text(job.job_id)
job.wait(600)
"""


def test_killed_loopback_program_fails_its_job(server: JobServerProcess, tmp_path: Path) -> None:
    here = Path(__file__).parent
    text = PROGRAM.format(
        kills=str(here),
        support=str(here.parent / "support"),
        address=server.address,
        folder=str(tmp_path),
    )
    program = subprocess.Popen([sys.executable, "-c", text])
    waiting_process(tmp_path, "process")
    file = tmp_path / "job"
    wait_until(lambda: file.exists() and file.read_text(), SECONDS, "the job is submitted")
    kill(program.pid)
    program.wait(SECONDS)
    assert Detector.HARNESS in row_of(ProgramState.WORKING).detectors
    with JobClient(server.address) as client:
        assert client.wait_until_finish(file.read_text(), SECONDS) is JobState.FAILED


@pytest.mark.parametrize(
    ("state", "find"),
    [(ForkServerState.READY, fork_server_of), (ReaperState.WATCHING, reaper_of)],
    ids=["fork server", "reaper"],
)
def test_killed_fork_server_is_replaced_and_its_bundles_are_retried(
    state: object, find: Callable[[JobServerProcess], int], tmp_path: Path
) -> None:
    with running() as server:
        job = submit(server, WaitOnce(tmp_path, "process"))
        worker, since = waiting_process(tmp_path, "process"), len(server.log)
        kill(find(server))
        wait_until_gone(worker, seconds=SECONDS)
        check_notices(server, since, state)
        assert job.wait(SECONDS) is JobState.DONE


def test_killed_running_server_leaves_no_process(boot: Path, tmp_path: Path) -> None:
    """The reaper has a limit of ten minutes in this test, so workers must detect the loss themselves."""
    with running(orphan_seconds=NEVER) as server:
        submit(server, WaitOnce(tmp_path, "process"), *environment_flags(boot)["PROCESS"])
        harness = waiting_process(tmp_path, "process")
        ended = {*workers_of(server), fork_server_of(server), harness}
        kill(server.process.pid)
        wait_until_gone(*ended, seconds=SECONDS)
        wait_until(lambda: not server.processes(), SECONDS, lambda: f"{server.processes()}")


@pytest.mark.parametrize(
    "state", [ServerState.STOPPING, ReaperState.ENDING, ForkServerState.STOPPING]
)
def test_killed_process_of_a_stopping_server_leaves_no_process(
    state: object, tmp_path: Path
) -> None:
    """User code in `teardown` delays the server's exit."""
    with running(teardown_seconds=NEVER, server_jobs_seconds=NEVER, orphan_seconds=3.0) as server:
        submit(server, WaitOnce(tmp_path, "teardown"))
        waiting_process(tmp_path, "teardown")
        reaper, fork_server = reaper_of(server), fork_server_of(server)
        server.process.terminate()
        wait_until(lambda: any("is stopping" in line for line in server.log), SECONDS, "it stops")
        if state is ReaperState.ENDING:
            os.kill(reaper, signal.SIGTERM)
            kill(reaper)
            wait_until_gone(fork_server, seconds=SECONDS)
            server.process.kill()
        else:
            kill(server.process.pid if state is ServerState.STOPPING else fork_server)
        if state is ForkServerState.STOPPING:
            assert server.process.wait(SECONDS) == 0
        wait_until(lambda: not server.processes(), SECONDS, lambda: f"{server.processes()}")


def test_killed_starting_server_leaves_no_process() -> None:
    """The fork server exists before the server serves."""
    mark = uuid.uuid4().hex
    command = [sys.executable, "-m", "beam_spark_executor.cli", "--job-port", "0", *FLAGS]
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        environment = {**os.environ, "BEAM_TEST_MARK": mark, "TMPDIR": folder}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
        wait_until(
            lambda: len(find_marked_processes("BEAM_TEST_MARK", mark)) > 1,
            SECONDS,
            "a process is forked",
        )
        time.sleep(0.1)
        kill(process.pid)
        process.wait(SECONDS)
        wait_until(lambda: not find_marked_processes("BEAM_TEST_MARK", mark), SECONDS, "all end")
        assert Detector.REAPER in row_of(ServerState.STARTING).detectors
