"""Server as a separate process that must stop without leftovers."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from attempts import AttemptsCheck
from beam_runner_driver.coordination.watermark_checks import VARIABLE
from beam_runner_runtime.shutdown import life
from beam_runner_storage.stores.probe import MARK
from processes import FORKED, find_marked_processes, parent_process, thread_count
from waiting import wait_until

PROGRAM = ("-m", "beam_spark_executor.cli")
UNCHECKED = {VARIABLE: ""}
"""Environment of a server whose costs are measured: it doesn't check watermarks."""
WITHOUT_LOOP = (str(Path(__file__).with_name("server_without_loop.py")),)
WITHOUT_PLACE = (str(Path(__file__).with_name("server_without_place.py")),)
_SERVES = re.compile(
    r"beam-spark-jobserver serves the Beam Job API at (\S+:\d+) \((?:Spark|plain) .+\).*"
)
_MARK = "BEAM_TEST_SERVER"
_START_SECONDS = 400.0
_STOP_SECONDS = 60.0
_DAEMONS = ("beam_spark_executor.spark.python_daemon", FORKED)
"""Parts of the command lines of the processes that fork workers, on Spark and on plain processes."""
# Files of the server: marks, locks, the list of all jobs, and their journals with related files.
_BOOKS = (
    "beam-runner-folder",
    "lock",
    "journal.lock",
    "journal.sqlite",
    "jobs.sqlite",
    "server-id",
)


def list_files(folder: Path) -> Iterator[Path]:
    """Returns all files below a folder, without files that disappear meanwhile."""
    for place, _, names in os.walk(folder):
        yield from (path for name in names if (path := Path(place, name)).is_file())


FAILING_SOON = "--max-stream-attempts=2"
"""Flag for test servers whose streams should not fail: a stream with a failed assertion ends instead of a hang."""


def without_store_mark(names: Iterable[str]) -> list[str]:
    """Returns the names of files in a store, except the marker file by which workers recognize the
    store.
    """
    return [name for name in names if name.rpartition("/")[2] != MARK]


class ServerEnded(AssertionError):
    """Raised if a server exits before it serves."""

    def __init__(self, server: JobServerProcess, text: str) -> None:
        super().__init__(text)
        self.server = server


class JobServerProcess:
    """Running ``beam-spark-jobserver``. Every process that the server starts inherits an
    environment variable, by which tests find the process.

    The server fails jobs if a watermark overtakes data, or if a transition is missing in the
    shutdown table.

    Attributes:
        address: ``host:port`` of the Job API.
        temporary: folder for temporary files, empty before the start and after the stop.
        log: lines of the standard error.
    """

    def __init__(
        self,
        temporary: Path,
        *flags: str,
        environment: Mapping[str, str] | None = None,
        program: Sequence[str] = PROGRAM,
    ) -> None:
        self.temporary = temporary
        self.log: list[str] = []
        self._mark = uuid.uuid4().hex
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.process = subprocess.Popen(
            [sys.executable, *program, "--job-port", "0", *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                VARIABLE: "1",
                life.VARIABLE: "1",
                **(environment or {}),
                "TMPDIR": str(temporary),
                _MARK: self._mark,
            },
        )
        threading.Thread(target=self._read_lines, daemon=True).start()
        threading.Thread(target=self._read_log, daemon=True).start()
        self._standing_by = 0 if any("local-cluster" in flag for flag in flags) else 1
        self._warm: set[int] = set()
        self.address = self._wait_for_address()
        self._warm = set(self.processes())
        self._asks_for_a_token = any(
            flag.startswith(("--token-file", "--users-file")) for flag in flags
        )
        begins_jobs = not any(flag.startswith("--state-dir") for flag in flags)
        self._attempts = AttemptsCheck(self.address, whole=begins_jobs)

    def processes(self) -> dict[int, str]:
        """Returns the command line of the server and of every descendant process."""
        return find_marked_processes(_MARK, self._mark)

    def workers(self) -> set[int]:
        """Returns the Python workers that serve jobs: forks of the warm daemons that have no forks
        themselves.

        Workers that warmed the server up before the first job don't count until Spark removes them.
        Workers that no job has reached, with one thread, don't count either: Spark retains a worker
        for a minute if its task was cancelled before its start, and gives the worker to the next
        job.
        """
        daemons = {
            pid
            for pid, command in self.processes().items()
            if any(each in command for each in _DAEMONS)
        }
        forkers = {parent_process(pid) for pid in daemons}
        forked = {pid for pid in daemons - forkers if parent_process(pid) in daemons}
        return {pid for pid in forked - self._warm if thread_count(pid) > 1}

    def files(self) -> list[Path]:
        """Returns the files of jobs: staged artifacts, outputs of jobs, folders of harnesses."""
        found = [p for p in self.temporary.iterdir() if not p.name.startswith("beam-spark-")]
        for folder in self.temporary.glob("beam-spark-jobserver-*/"):
            found += [
                path
                for path in list_files(folder)
                if not path.name.startswith(_BOOKS) and path.name != MARK
            ]
            found += (path for path in folder.glob("jobs/*") if path.name != MARK)
        return found

    def wait_until_idle(self, seconds: float = 60.0) -> None:
        """Waits until no worker process and no file of a job is left.

        One standby worker for the next job may stay.
        """
        wait_until(
            lambda: len(self.workers()) <= self._standing_by,
            seconds,
            lambda: f"workers end: {self.workers()}",
        )
        wait_until(lambda: not self.files(), seconds, lambda: f"files go: {self.files()}")

    def stop(self) -> None:
        """Stops the server as a supervisor does, checks its jobs, and checks for leftovers.

        Raises:
            AssertionError: user code ran again without a failure, a process or file is left, or the
                server exited with an error.
        """
        self.check_attempts()
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError("SIGTERM did not end the server") from None
        assert code == 0, f"the server ended with {code}: {self.log[-5:]}"
        wait_until(lambda: not self.processes(), 30, lambda: f"processes end: {self.processes()}")
        left = list(self.temporary.iterdir())
        assert left == [], f"files stay: {left}"

    def check_attempts(self) -> None:
        """Checks all jobs that succeeded since the last call: no user code ran again without a failure."""
        if not self._asks_for_a_token:
            self._attempts.check_finished_jobs()

    def kill(self) -> None:
        """Kills the server and all its processes."""
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait(_STOP_SECONDS)

    def _wait_for_address(self) -> str:
        try:
            line = self._lines.get(timeout=_START_SECONDS)
        except queue.Empty:
            self.kill()
            raise AssertionError(f"the server did not start: {self.log}") from None
        match = _SERVES.fullmatch(line.strip())
        if match is None:
            raise ServerEnded(self, f"the server did not start: {line!r} {self.log}")
        return match[1]

    def _read_lines(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def _read_log(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)


@contextmanager
def job_server(
    temporary: Path,
    *flags: str,
    environment: Mapping[str, str] | None = None,
    program: Sequence[str] = PROGRAM,
) -> Iterator[JobServerProcess]:
    """Runs a server for the block. If the block succeeds, the server must exit normally."""
    server = JobServerProcess(temporary, *flags, environment=environment, program=program)
    try:
        yield server
        server.stop()
    finally:
        if server.process.poll() is None:
            server.kill()
