"""A server that is killed and started again on the same state folder and port."""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from free_ports import find_free_ports
from job_server import JobServerProcess, ServerEnded
from processes import FORKED, parent_process, thread_count
from waiting import wait_until

SERVING_SECONDS = 120.0
"""Limit for the start of a server after the start of Spark, seconds."""
GONE_SECONDS = 60.0
THREADS_OF_A_CHANNEL = 4
"""A worker process that has at least as many serves a job."""
_JAVA = re.compile(r"\bjava\b.* org\.apache\.spark\.deploy\.SparkSubmit ")
_EXECUTOR = "CoarseGrainedExecutorBackend"
_HARNESS = re.compile(r"beam_runner_worker\.fnapi\.boot|sdk_worker_main|^/bin/sh -c exec 3<&0")
_DAEMON = "beam_spark_executor.spark.python_daemon"
_SERVER = "beam_spark_executor.cli"
_SPARK_UP = re.compile(r"^(\S+)Z INFO beam_runner_server\.job_server: (?:Spark \S+|plain .+) is up")
_SERVES = re.compile(r"^(\S+)Z INFO beam_runner_jobservices\.server: serving the Beam Job API")


class Lives:
    """Consecutive processes of one server.

    Args:
        temporary: folder for temporary files.
        state: state folder, or URL of a store.
        flags: additional flags.
        environment: additional environment variables.

    Attributes:
        count: number of started processes.
        kills: number of killed processes of each kind.
        slowest: maximum time from the start of Spark to the start of service, seconds.
    """

    def __init__(
        self,
        temporary: Path,
        state: Path | str,
        *flags: str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._temporary = temporary
        self._flags = (f"--job-port={find_free_ports(1)[0]}", f"--state-dir={state}", *flags)
        self._environment = environment or {}
        self.count = 0
        self.slowest = 0.0
        self.kills: Counter[str] = Counter()
        self.server = self._start()

    @property
    def address(self) -> str:
        """Address of the Job API, the same for all processes."""
        return self.server.address

    def victims(self, kind: str) -> list[int]:
        """Returns process ids by kind: ``server``, ``java``, ``executor``, ``daemon``, ``worker``,
        ``harness``.

        Workers are only processes that serve a job, without standby workers.
        """
        processes = self.server.processes()
        match kind:
            case "server":
                return [pid for pid, command in processes.items() if _SERVER in command]
            case "java":
                return [pid for pid, command in processes.items() if _JAVA.search(command)]
            case "executor":
                return [pid for pid, command in processes.items() if _EXECUTOR in command]
            case "harness":
                found = [pid for pid, command in processes.items() if _HARNESS.search(command)]
                return [pid for pid in found if not _is_shell(processes[pid])]
            case "daemon" | "worker":
                found = [
                    pid for pid, text in processes.items() if _DAEMON in text or text == FORKED
                ]
                forked = {pid for pid in found if parent_process(pid) in found}
                if kind == "daemon":
                    return [pid for pid in found if pid not in forked]
                return [pid for pid in forked if thread_count(pid) >= THREADS_OF_A_CHANNEL]
        raise ValueError(kind)

    def kill(self, kind: str, choose: int = 0) -> bool:
        """Kills one process of a kind; returns False if no process was found. After a kill of server
        or Java, `go_on` is needed.
        """
        found = sorted(self.victims(kind))
        if not found:
            return False
        try:
            os.kill(found[choose % len(found)], signal.SIGKILL)
        except ProcessLookupError:
            return False
        self.kills[kind] += 1
        return True

    def wait_until_gone(self) -> int:
        """Waits until the server and all its processes have ended, by themselves; the exit code.

        Raises:
            AssertionError: something stays.
        """
        code = self.server.process.wait(GONE_SECONDS)
        wait_until(
            lambda: not self.server.processes(),
            GONE_SECONDS,
            lambda: f"processes end: {self.server.processes()}",
        )
        return code

    def go_on(self) -> float:
        """Starts the next process; returns the seconds from the start of Spark to the start of service."""
        self.server = self._start()
        seconds = self.seconds_to_serve()
        self.slowest = max(self.slowest, seconds)
        assert seconds < SERVING_SECONDS
        return seconds

    def go_on_to_die(self) -> None:
        """Starts the next process, which is going to be killed soon."""
        try:
            self.server = self._start()
        except ServerEnded as error:
            self.server = error.server

    def seconds_to_serve(self) -> float:
        """Returns the time from the start of Spark to the start of service, seconds."""
        wait_until(lambda: self._moments(_SERVES), 60, "its log tells that it serves")
        return self._moments(_SERVES)[0] - self._moments(_SPARK_UP)[0]

    def _moments(self, pattern: re.Pattern[str]) -> list[float]:
        return [at for line in self.server.log if (at := _moment(pattern, line)) is not None]

    def _start(self) -> JobServerProcess:
        self.count += 1
        return JobServerProcess(self._temporary, *self._flags, environment=self._environment)


@contextmanager
def lives(
    temporary: Path, state: Path | str, *flags: str, environment: Mapping[str, str] | None = None
) -> Iterator[Lives]:
    """Lives for the time of a ``with``; nothing stays."""
    running = Lives(temporary, state, *flags, environment=environment)
    try:
        yield running
    finally:
        running.server.kill()


def _moment(pattern: re.Pattern[str], line: str) -> float | None:
    match = pattern.match(line)
    if match is None:
        return None
    whole, _, fraction = match[1].partition(".")
    return time.mktime(time.strptime(whole, "%Y-%m-%dT%H:%M:%S")) + float(f"0.{fraction or 0}")


def _is_shell(command: str) -> bool:
    return command.startswith("/bin/sh")
