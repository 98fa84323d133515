"""Tests that one preloaded process forks all daemons, and that Spark treats them as its own children."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import parent_process
from waiting import wait_until_gone

from beam_spark_executor.spark import fork_server

pytestmark = pytest.mark.skipif(
    not fork_server.is_fork_server_supported(), reason="Linux alone can do that"
)

# Starts daemons as Java does, all from one process, on each line of standard input.
SPARK = """
import os, subprocess, sys
for number, line in enumerate(sys.stdin):
    environment = {**os.environ, "NUMBER": str(number)}
    subprocess.Popen([sys.executable, "-c", sys.argv[1], line.strip()], env=environment)
"""
DAEMON = """
import json, os, sys, time
from beam_runner_runtime.processes import reaper
from beam_runner_runtime.shutdown.limits import LIMITS
from beam_spark_executor.spark import fork_server

LIMITS.orphan_seconds = 1.0
made = []

def prepare():
    made.append(os.getpid())

def run_daemon():
    told = {"pid": os.getpid(), "parent": os.getppid(), "made": made}
    told |= {"number": os.environ["NUMBER"], "folder": os.getcwd()}
    print(json.dumps(told), flush=True)
    if sys.argv[1] == "stays":
        time.sleep(600)

fork_server.run_daemon_in_fork(prepare, run_daemon)
"""

READS_TO_THE_END = """
import subprocess, sys
daemon = subprocess.Popen([sys.executable, "-c", sys.argv[1], "ends"], stdout=subprocess.PIPE)
daemon.stdout.read()
print("ended", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", SPARK, DAEMON],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    yield process
    process.kill()
    process.wait()


def start(spark: subprocess.Popen[str], what: str) -> dict[str, object]:
    assert spark.stdin is not None
    assert spark.stdout is not None
    spark.stdin.write(f"{what}\n")
    spark.stdin.flush()
    told: dict[str, object] = json.loads(spark.stdout.readline())
    return told


@pytest.mark.timeout(120)
def test_output_pipe_of_daemon_closes_at_its_exit_although_fork_server_runs(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", READS_TO_THE_END, DAEMON],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NUMBER": "0"},
    )
    try:
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], 60)[0]
        assert process.stdout.readline() == "ended\n"
    finally:
        process.kill()
        process.wait()


@pytest.mark.timeout(120)
def test_daemons_are_forked_from_fork_server_that_exits_with_spark(
    spark: subprocess.Popen[str], tmp_path: Path
) -> None:
    first, second = start(spark, "stays"), start(spark, "stays")
    assert first["parent"] == second["parent"]
    assert first["made"] == second["made"] == [first["parent"]]
    assert (first["number"], second["number"]) == ("0", "1")
    assert first["folder"] == str(tmp_path)
    server = int(str(first["parent"]))
    of_server = parent_process(server)
    spark.kill()
    for pid in (first["pid"], second["pid"], server, of_server):
        wait_until_gone(int(str(pid)))


TELLING_DAEMON = """
import os, sys
from beam_spark_executor.spark import fork_server

def run_daemon():
    here = "here" in map(os.path.basename, sys.path)
    print(os.getppid(), os.environ["NUMBER"], here, flush=True)
"""
# A job server that takes the role of Spark for its daemons: each line makes it start a daemon.
JOB_SERVER = (
    TELLING_DAEMON
    + """
import subprocess
from beam_runner_runtime.processes.forked_process import ForkedProcess

listener = fork_server.open_job_server_socket()
ForkedProcess(lambda: fork_server.serve_fork_requests(listener, lambda: None, run_daemon))
listener.close()
for number, line in enumerate(sys.stdin):
    mark = f"{os.getpid()}.mark" if line == "ours\\n" else "1.mark"
    environment = {**os.environ, "NUMBER": str(number), fork_server.SERVER_VARIABLE: mark}
    environment["PYTHONPATH"] += os.pathsep + "here"
    subprocess.Popen([sys.executable, "-c", sys.argv[1]], env=environment)
"""
)


@pytest.mark.timeout(120)
def test_daemons_of_job_server_are_forked_from_its_own_fork_server(tmp_path: Path) -> None:
    daemon = f"{TELLING_DAEMON}\nfork_server.run_daemon_in_fork(lambda: None, run_daemon)"
    with subprocess.Popen(
        [sys.executable, "-c", JOB_SERVER, daemon],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        told = []
        for whose in ("ours", "ours", "another's"):
            server.stdin.write(f"{whose}\n")
            server.stdin.flush()
            told.append(server.stdout.readline().split())
        server.kill()
    first, second, other = told
    assert first[1:] == ["0", "True"]
    assert second == [first[0], "1", "True"]
    # A daemon that doesn't find the fork server starts a new fork server.
    assert other[1:] == ["2", "True"]
    assert other[0] != first[0]


@pytest.mark.timeout(120)
def test_proxy_process_and_forked_daemon_exit_together(spark: subprocess.Popen[str]) -> None:
    ended = start(spark, "ends")
    before = set(_children(spark.pid))
    stays = start(spark, "stays")
    (stand_in,) = (int(pid) for pid in set(_children(spark.pid)) - before)
    wait_until_gone(int(str(ended["pid"])))
    os.kill(stand_in, signal.SIGTERM)
    wait_until_gone(int(str(stays["pid"])))
    wait_until_gone(stand_in)


def test_daemon_that_exits_immediately_is_reported_as_started() -> None:
    with subprocess.Popen(["true"]) as daemon:
        daemon.wait()
    ended = fork_server.open_exit_file(daemon.pid)
    assert select.select([ended], [], [], 0) == ([ended], [], [])
    os.close(ended)


ASKED_TO_END_WHILE_IT_BEGINS = """
import os, signal, subprocess
from beam_spark_executor.spark import fork_server

daemon = subprocess.Popen(["sleep", "600"])

def hand_over(name):
    os.kill(os.getpid(), signal.SIGTERM)
    return daemon.pid

fork_server._request_fork = hand_over
fork_server._create_fork_server = fork_server.reaper.redirect_to_null = lambda *_: None
fork_server.run_daemon_in_fork(lambda: None, lambda: None)
print(daemon.wait())
"""


def test_starting_daemon_can_be_terminated() -> None:
    command = [sys.executable, "-c", ASKED_TO_END_WHILE_IT_BEGINS]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert told.stdout.strip() == str(-signal.SIGTERM), told.stderr


@pytest.mark.timeout(120)
def test_killed_fork_server_is_started_again(spark: subprocess.Popen[str]) -> None:
    first = start(spark, "stays")
    os.kill(int(str(first["parent"])), signal.SIGKILL)
    second = start(spark, "stays")
    assert second["parent"] != first["parent"]
    wait_until_gone(int(str(first["pid"])))


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
