"""Job server in a child process that this program starts, and that exits together with this program."""

from __future__ import annotations

import collections
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_START_SECONDS = 180.0
_LOOK_SECONDS = 0.02
_LAST_WORDS_SECONDS = 1.0
_PREFIX = "beam-spark-jobserver: "

_THIS_PROGRAMS = frozenset(
    (
        "PYSPARK_GATEWAY_PORT",
        "PYSPARK_GATEWAY_SECRET",
        "SPARK_CONNECT_MODE_ENABLED",
        "SPARK_LOCAL_REMOTE",
        "SPARK_REMOTE",
    )
)
"""Environment variables that PySpark sets in a program that runs under ``spark-submit`` or uses Spark Connect."""

log = logging.getLogger("beam_runner_server")


class ServerNotStarted(RuntimeError):
    """Raised if the server doesn't start; the text says why."""


class ServerProcess:
    """Child process that runs ``beam-spark-jobserver``, until this program ends or calls `end`.

    The server's log lines go to this program's ``logging``. The server watches this process, so it
    also exits if this process is killed.

    Attributes:
        endpoint: the ``host:port`` of the Job API, which answers clients.

    Raises:
        ServerNotStarted: the server exits during its start, for example because a flag is wrong.
    """

    def __init__(self, flags: Sequence[str]) -> None:
        self._ended = ""
        self._last: collections.deque[str] = collections.deque(maxlen=1)
        with tempfile.TemporaryDirectory(prefix="beam-spark-runner-") as folder:
            port_file = Path(folder, "port")
            self._process = _start_server_process(flags, port_file)
            assert self._process.stdout is not None
            self._reader = threading.Thread(
                target=self._read_log, args=(self._process.stdout,), name="server-log", daemon=True
            )
            self._reader.start()
            try:
                self.endpoint = self._wait_for_port_file(port_file)
            except BaseException:
                self.end()
                raise

    @property
    def is_alive(self) -> bool:
        """Returns whether the process runs."""
        return self._process.poll() is None

    def get_exit_reason(self) -> str:
        """Returns why the process has exited, in words for the user; empty while the process runs."""
        if self.is_alive:
            return ""
        self._reader.join(_LAST_WORDS_SECONDS)
        said = self._last[0] if self._last else f"exit code {self._process.returncode}"
        return f"the server that this program started has exited: {said}"

    def end(self) -> None:
        """Requests the stop of the process, which takes some seconds; returns immediately."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    def _wait_for_port_file(self, port_file: Path) -> str:
        deadline = time.monotonic() + _START_SECONDS
        while not port_file.exists():
            if not self.is_alive:
                self._reader.join(_LAST_WORDS_SECONDS)
                said = self._last[0] if self._last else "no output"
                raise ServerNotStarted(f"Spark's job server did not start: {said}")
            if time.monotonic() > deadline:
                raise ServerNotStarted(
                    f"Spark's job server did not respond within {_START_SECONDS:.0f} seconds"
                )
            time.sleep(_LOOK_SECONDS)
        return port_file.read_text()

    def _read_log(self, lines: IO[bytes]) -> None:
        with lines:
            for line in lines:
                text = line.decode(errors="replace").rstrip()
                try:
                    record = json.loads(text)
                    level = logging.getLevelNamesMapping()[record["level"]]
                    log.log(level, "%s", record["msg"])
                    if level >= logging.ERROR:
                        self._last.append(record["msg"])
                except (ValueError, KeyError, TypeError):
                    log.info("%s", text)
                    if text.startswith(_PREFIX):
                        self._last.append(text.removeprefix(_PREFIX))


def _start_server_process(flags: Sequence[str], port_file: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "beam_spark_executor.cli"]
    command += [f"--parent-pid={os.getpid()}", f"--port-file={port_file}", "--job-port=0"]
    return subprocess.Popen(
        [*command, "--log-kind=json", "--log-level=warning", *flags],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C in the terminal goes to this program, which then ends the server
        env={**_remove_spark_variables(os.environ), "PYTHONPATH": make_python_path()},
    )


def _remove_spark_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment without Spark's variables, because the server starts a separate Spark."""
    return {name: value for name, value in environment.items() if name not in _THIS_PROGRAMS}


def make_python_path() -> str:
    """Returns the import path of this program for workers on this machine, in the form of ``PYTHONPATH``."""
    found = (os.path.abspath(folder) for folder in sys.path)
    return os.pathsep.join(folder for folder in found if os.pathsep not in folder)
