"""Job server in the user's program, which uses the program's Spark: an existing session, or the
Spark of ``spark-submit``.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence

import attrs
from beam_runner_model.errors import RunnerError
from beam_runner_server import extensions
from beam_runner_server.flags import InvalidFlag, parse_settings
from beam_runner_server.job_server import RunnerServer
from beam_spark_io.sessions import find_session

from beam_spark_executor.program import SparkProgram
from beam_spark_executor.spark.existing_session import SUBMITTED, reject_spark_connect
from beam_spark_executor.spark.platform import SparkPlatform
from beam_spark_executor.spark.settings import SparkSettings, SparkUnavailable

log = logging.getLogger("beam_runner_server")


class InProcessServerNotStarted(Exception):
    """Raised if the server doesn't start; the text says why."""


class InProcessServer:
    """Job server in this process, until the program ends or calls `end`.

    The server doesn't change an existing session, this process's signal handlers, or its garbage
    collection.

    Args:
        spark: the Spark to run on.

    Attributes:
        endpoint: the ``host:port`` of the Job API, which answers clients.

    Raises:
        InProcessServerNotStarted: the server can't start, for example because a flag is wrong.
    """

    def __init__(self, flags: Sequence[str], spark: SparkSettings) -> None:
        try:
            settings = parse_settings([*flags, "--job-port=0"], SparkProgram())
            assert isinstance(settings.platform, SparkPlatform)
            spark = attrs.evolve(
                settings.platform.settings, session=spark.session, python_path=spark.python_path
            )
            self._server = RunnerServer(attrs.evolve(settings, platform=SparkPlatform(spark)))
        except (InvalidFlag, RunnerError, OSError) as error:
            raise InProcessServerNotStarted(str(error)) from error
        self._extensions = settings.extensions
        try:
            self.endpoint = self._server.start()
        except BaseException as error:
            self._server.stop()
            if isinstance(error, Exception):
                raise InProcessServerNotStarted(
                    str(error).strip() or type(error).__name__
                ) from error
            raise
        for line in extensions.start_extensions(self._extensions, self._server.door):
            log.info("%s", line)
        self._process = os.getpid()
        # Don't use atexit: Python first waits for the server's threads, which wait for clients.
        threading._register_atexit(self.end)  # type: ignore[attr-defined]

    @property
    def is_alive(self) -> bool:
        """Returns whether Spark runs."""
        return self._server.is_alive

    def get_exit_reason(self) -> str:
        """Returns the reason why the server doesn't accept jobs anymore, as a text for the user;
        empty while the server accepts jobs.
        """
        return (
            ""
            if self.is_alive
            else ("the program stopped the SparkSession on which the server ran")
        )

    def end(self) -> None:
        """Stops the server. Further calls, and calls in a forked child process, do nothing."""
        if os.getpid() != self._process:
            return
        for extension in self._extensions:
            extension.stop()
        self._server.stop()


def start_in_process_server(flags: Sequence[str], python_path: str) -> InProcessServer | None:
    """Starts a server in this process if Spark runs in this process. Otherwise returns None,
    because the server needs a separate Spark.

    Call this function in the user's thread, because each thread can have a different Spark session.

    Args:
        flags: see `InProcessServer`. If a flag names a Spark master and a session exists, the
            result is None.
        python_path: the import path for workers on this machine, in the form of ``PYTHONPATH``.

    Raises:
        InProcessServerNotStarted: for example, the existing Spark can't be used, or a flag is wrong.
    """
    names_spark = any(flag.startswith(("--spark-master-url", "--spark-conf")) for flag in flags)
    session = find_session()
    if session is None and not names_spark:
        try:
            reject_spark_connect({})
        except SparkUnavailable as error:
            raise InProcessServerNotStarted(str(error)) from error
    if (session is not None and names_spark) or (session is None and SUBMITTED not in os.environ):
        return None
    return InProcessServer(flags, SparkSettings(session=session, python_path=python_path))
