"""A server within the program itself, on the Spark that the program has: a session, or what ``spark-submit`` gave it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence

import attrs
from beam_runner_model.errors import RunnerError
from beam_runner_server import extensions
from beam_runner_server.flags import WrongFlag, settings_of
from beam_runner_server.job_server import Server
from beam_spark_io.sessions import session_here

from beam_spark_executor.program import SparkProgram
from beam_spark_executor.spark.ambient import SUBMITTED, refuse_connect
from beam_spark_executor.spark.platform import SparkPlatform
from beam_spark_executor.spark.settings import SparkSettings, SparkUnavailable

log = logging.getLogger("beam_runner_server")


class NotStarted(Exception):
    """The server did not start; the text says why."""


class ServerHere:
    """A server in this process, from its start until the program ends or `end` is called.

    A session that was there is left as it was, and so are this process's signals and its garbage collection.

    Args:
        flags: for the command line of a server of its own.
        spark: the Spark to run on.

    Attributes:
        endpoint: ``host:port`` of the Job API; clients are answered there.

    Raises:
        NotStarted: a flag is wrong, say.
    """

    def __init__(self, flags: Sequence[str], spark: SparkSettings) -> None:
        try:
            settings = settings_of([*flags, "--job-port=0"], SparkProgram())
            assert isinstance(settings.platform, SparkPlatform)
            spark = attrs.evolve(
                settings.platform.settings, session=spark.session, python_path=spark.python_path
            )
            self._server = Server(attrs.evolve(settings, platform=SparkPlatform(spark)))
        except (WrongFlag, RunnerError, OSError) as error:
            raise NotStarted(str(error)) from error
        self._extensions = settings.extensions
        try:
            self.endpoint = self._server.start()
        except BaseException as error:
            self._server.stop()
            if isinstance(error, Exception):
                raise NotStarted(str(error).strip() or type(error).__name__) from error
            raise
        for line in extensions.start(self._extensions, self._server.door):
            log.info("%s", line)
        self._process = os.getpid()
        # Not atexit: before that Python waits for the server's threads, which wait for clients.
        threading._register_atexit(self.end)  # type: ignore[attr-defined]

    @property
    def is_alive(self) -> bool:
        """Whether Spark runs."""
        return self._server.is_alive

    def why_gone(self) -> str:
        """Why it takes no jobs any more, in words for the user; empty while it does."""
        return "" if self.is_alive else "the SparkSession that its server had run on was stopped"

    def end(self) -> None:
        """Stops it, which takes a moment; again, or in a process forked from this one, does nothing."""
        if os.getpid() != self._process:
            return
        for extension in self._extensions:
            extension.stop()
        self._server.stop()


def server_here(flags: Sequence[str], python_path: str) -> ServerHere | None:
    """A server in this process, if Spark is there; None where a server is to have a Spark of its own.

    To be called in the thread of the program's user, which may have a session of its own.

    Args:
        flags: as of `ServerHere`. Where they name a Spark and a session is there, they ask for another one.
        python_path: what workers on this machine can import, as in ``PYTHONPATH``.

    Raises:
        NotStarted: the Spark that is there can't be used, or a flag is wrong, say.
    """
    names_spark = any(flag.startswith(("--spark-master-url", "--spark-conf")) for flag in flags)
    session = session_here()
    if session is None and not names_spark:
        try:
            refuse_connect({})
        except SparkUnavailable as error:
            raise NotStarted(str(error)) from error
    if (session is not None and names_spark) or (session is None and SUBMITTED not in os.environ):
        return None
    return ServerHere(flags, SparkSettings(session=session, python_path=python_path))
