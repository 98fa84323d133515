"""Tests of the command as a process: its output, its exit code and its leftovers."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from beam_runner_jobservices.client import JobClient
from beam_runner_storage.durable.folders import mark_folder
from waiting import wait_until

from beam_spark_executor.spark.java import list_session_processes
from beam_spark_executor.spark.shutdown import SPARK_LIMITS

COMMAND = [sys.executable, "-m", "beam_spark_executor.cli"]
PATIENT = """
import sys
from beam_spark_executor.cli import main
from beam_spark_executor.spark.session import RunningSpark
RunningSpark.stop.__defaults__ = (600.0,)
sys.exit(main())
"""
"""The same command with a limit of ten minutes for the shutdown of Spark."""
SERVES = re.compile(
    r"beam-spark-jobserver serves the Beam Job API at (localhost:\d+) \(Spark [\d.]+, local\[6,4\]\)"
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Returns the command's folder for temporary files, which must be empty at the end."""
    with tempfile.TemporaryDirectory(prefix="t") as name:
        yield Path(name)
        assert list(Path(name).iterdir()) == []


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(folder), **more}


def run_briefly(folder: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        env=environment(folder, **more),
    )


@pytest.mark.timeout(120)
def test_server_command_with_port_in_use_prints_one_sentence_and_ends_java(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_briefly(folder, "--job-port", str(port))
    assert done.returncode == 1
    assert done.stdout == ""
    assert str(port) in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.timeout(120)
@pytest.mark.parametrize(("name", "level"), [("jobs.sqlite", "info"), ("journal.sqlite", "error")])
def test_server_command_with_damaged_state_folder_reports_and_preserves_it(
    folder: Path, tmp_path: Path, name: str, level: str
) -> None:
    mark_folder(tmp_path, "state")
    (tmp_path / name).write_bytes(b"damaged")
    arguments = ("--job-port", "0", "--state-dir", str(tmp_path), "--log-level", level)
    done = run_briefly(folder, *arguments, JAVA_HOME="/nowhere")
    assert done.returncode == 1
    told = [line for line in done.stderr.splitlines() if f"{name} is damaged" in line]
    assert len(told) == 1
    assert (tmp_path / f"{name}.damaged-1").read_bytes() == b"damaged"


class Running:
    """A server in a separate process, without the web interface."""

    def __init__(self, folder: Path, *command: str) -> None:
        self.process = subprocess.Popen(
            [*command, "--job-port", "0", "--spark-master-url", "local[1,4]", "--serve-http=false"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(folder),
        )
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.errors: list[str] = []
        threading.Thread(target=self._read_lines, daemon=True).start()
        threading.Thread(target=self._read_errors, daemon=True).start()

    def _read_lines(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self.errors.extend(self.process.stderr)

    def serving(self) -> str:
        match = SERVES.fullmatch(self.lines.get(timeout=150).strip())
        assert match is not None
        return match[1]

    def children(self) -> set[int]:
        found: set[int] = set()
        for file in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # the thread has ended in the meantime
                found.update(map(int, file.read_text().split()))
        return found

    def java(self) -> int:
        (pid,) = self.children() - {self.fork_server()}
        return pid

    def fork_server(self) -> int:
        """Returns the process that forks workers. Its command line equals the command line of the server."""
        mine = Path(f"/proc/{self.process.pid}/cmdline").read_bytes()
        (pid,) = (
            pid for pid in self.children() if Path(f"/proc/{pid}/cmdline").read_bytes() == mine
        )
        return pid


@pytest.fixture
def running(folder: Path, request: pytest.FixtureRequest) -> Iterator[Running]:
    server = Running(folder, *getattr(request, "param", COMMAND))
    yield server
    if server.process.poll() is None:
        server.process.kill()
        server.process.wait()


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


@pytest.mark.spark
@pytest.mark.timeout(240)
@needs_proc
def test_server_command_serves_until_signal_and_leaves_no_process_or_file(running: Running) -> None:
    address = running.serving()
    with JobClient(address) as client:
        assert client.list_jobs() == ()
    java, fork_server = running.java(), running.fork_server()
    assert len(list_session_processes(java)) >= 2
    assert len(list_session_processes(fork_server)) >= 3
    running.process.terminate()
    assert running.process.wait(60) == 0
    assert list_session_processes(java) == list_session_processes(fork_server) == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("localhost", int(address.rpartition(":")[2])), 5)
    assert running.lines.empty()
    assert [line for line in running.errors if "INFO" not in line] == [
        "beam-spark-jobserver is stopping\n"
    ]


@pytest.mark.spark
@pytest.mark.timeout(240)
@needs_proc
@pytest.mark.parametrize(
    "running", [(sys.executable, "-c", PATIENT)], indirect=True, ids=["patient"]
)
def test_server_command_ends_immediately_at_second_signal(running: Running) -> None:
    running.serving()
    java = running.java()
    os.kill(java, signal.SIGSTOP)  # the shutdown of Spark hangs
    running.process.terminate()
    wait_until(lambda: "beam-spark-jobserver is stopping\n" in running.errors)
    assert running.process.poll() is None
    running.process.terminate()
    # Without the second signal, the server waits for Spark for minutes.
    assert running.process.wait(60) == 0
    wait_until(lambda: not list_session_processes(java))
    # Threads that use Spark during the kill must not log errors.
    assert [line for line in running.errors if "INFO" not in line] == [
        "beam-spark-jobserver is stopping\n"
    ]


@pytest.mark.spark
@pytest.mark.timeout(240)
@needs_proc
@pytest.mark.parametrize(("wait", "number"), [(0.0, signal.SIGTERM), (0.8, signal.SIGINT)])
def test_server_command_ends_at_signal_during_start(
    running: Running, wait: float, number: signal.Signals
) -> None:
    """Even a fast machine needs more than a second from the start of Java until the server serves."""
    wait_until(lambda: len(running.children()) >= 2, 100)
    java = running.java()
    time.sleep(wait)
    running.process.send_signal(number)
    signalled = time.monotonic()
    assert running.process.wait(60) == 0
    assert time.monotonic() - signalled < SPARK_LIMITS.java_start_seconds / 2
    assert running.lines.empty()
    assert list_session_processes(java) == []
    # If Spark started before the signal, the log contains a line about it.
    assert [line for line in running.errors if "INFO" not in line] == [
        "beam-spark-jobserver is stopping\n"
    ]


@pytest.mark.spark
@pytest.mark.timeout(240)
@needs_proc
def test_server_command_ends_with_one_sentence_if_spark_is_lost(running: Running) -> None:
    running.serving()
    java = running.java()
    os.kill(java, signal.SIGKILL)
    assert running.process.wait(60) == 1
    assert list_session_processes(java) == []
    assert "Spark's Java process exited unexpectedly" in running.errors[-1]
