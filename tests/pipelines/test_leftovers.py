"""Tests that a server leaves no process and no file after any kind of exit."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import apache_beam as beam
import pytest
from job_server import JobServerProcess
from jobs import Pipelines
from processes import FORKED, parent_process
from waiting import wait_until

GOES_ON_SECONDS = 2
GONE_SECONDS = 60.0
"""Ten on a machine that has time."""

START = """
from beam_runner_server.flags import ServerSettings
from beam_runner_server.job_server import RunnerServer
RunnerServer(ServerSettings(job_port=0)).stop()
"""
"""Start and shutdown of the next server, without the processes of jobs."""


class ForkAndBlock(beam.DoFn):
    """DoFn that forks children in separate sessions, and blocks in C with the GIL held."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def process(self, name: str) -> None:
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            # gRPC's fork handler can hang; then the fork is a process, too.
            os.fork()
            self._block()
        subprocess.Popen(["sleep", "600"], start_new_session=True)
        self._folder.joinpath(name).touch()
        self._block()

    def _block(self) -> None:
        ctypes.PyDLL(None).sleep(600)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "ends",
    [
        # CI runs these on Spark.
        pytest.param("SIGTERM", marks=pytest.mark.slow),
        pytest.param("the server is killed", marks=pytest.mark.slow),
        "what runs it is killed",
    ],
)
def test_stopped_server_leaves_no_process_and_no_folder(
    ends: str,
    placement: tuple[str, ...],
    flags_of: Callable[[str], list[str]],
    tmp_path: Path,
) -> None:
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        server = JobServerProcess(Path(folder), *placement)
        try:
            for name in ("embedded", "PROCESS"):
                pipelines = Pipelines(server.address, name, flags_of(name))
                pipeline = pipelines.new()
                _ = pipeline | beam.Create([name]) | beam.ParDo(ForkAndBlock(tmp_path))
                pipelines.job(pipeline)
            wait_until(lambda: len(list(tmp_path.iterdir())) == 2, 120, "user code blocks")
            _end(server, ends)
            server.process.wait(GONE_SECONDS)
            wait_until(
                lambda: not server.processes(), GONE_SECONDS, lambda: str(server.processes())
            )
            if ends == "the server is killed":
                start = [sys.executable, "-c", START]
                subprocess.run(start, env={**os.environ, "TMPDIR": folder}, check=True)
            assert list(Path(folder).iterdir()) == []
        finally:
            server.kill()


def _end(server: JobServerProcess, how: str) -> None:
    match how:
        case "SIGTERM":
            server.process.terminate()
        case "the server is killed":
            server.process.kill()
        case _:
            is_spark = any("SparkSubmit" in command for command in server.processes().values())
            for pid in _what_runs_it(server):
                os.kill(pid, signal.SIGKILL)
            if not is_spark:
                # A server on plain processes starts a new fork server, and runs the lost bundles
                # again.
                time.sleep(GOES_ON_SECONDS)
                assert server.process.poll() is None
                server.process.terminate()


def _what_runs_it(server: JobServerProcess) -> list[int]:
    """Returns Spark's Java process, or the fork server of plain workers without its reaper, which must outlive it."""
    commands = server.processes()
    if java := [pid for pid, command in commands.items() if "SparkSubmit" in command]:
        return java
    found = [pid for pid, command in commands.items() if command == FORKED]
    return [pid for pid in found if parent_process(pid) in found]
