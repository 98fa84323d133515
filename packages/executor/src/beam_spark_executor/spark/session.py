"""Start and stop of the Spark that a server uses.

Three cases exist:

- A session exists in this process. The server uses it, and leaves it running.
- The program runs under ``spark-submit``, so a Java process exists. The server makes a context in
  it, with the settings of the submission, and with the server's settings for the rest.
- Otherwise the server starts a Java process, which ends with it.
"""

from __future__ import annotations

import contextlib
import importlib.resources
import logging
import os
import shutil
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from beam_runner_model.threads import start_helper_thread
from beam_runner_runtime.memory import read_memory_limit
from beam_runner_storage.temporary import TemporaryFolder
from beam_spark_io.sessions import find_session
from beam_spark_io.spark.reasons import find_failure_reason
from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from beam_spark_executor.spark.class_sharing import make_archive_use_options
from beam_spark_executor.spark.existing_session import (
    SUBMITTED,
    find_missing_settings,
    reject_spark_connect,
)
from beam_spark_executor.spark.health_check import SparkHealthCheck
from beam_spark_executor.spark.java import JavaProcess, check_java, set_temporary_environment
from beam_spark_executor.spark.java_wheel import make_java_home_variables
from beam_spark_executor.spark.master_check import check_master_reachable
from beam_spark_executor.spark.settings import (
    DEFAULT_MASTER,
    SparkSettings,
    SparkUnavailable,
    check_master,
    compute_driver_heap_size,
    count_slots_of_master,
    is_on_this_machine,
    is_single_process,
    make_java_options,
    make_session_properties,
)
from beam_spark_executor.spark.shutdown import SPARK_LIMITS

_LACKING = (
    "the existing SparkSession works, but jobs start seconds later than with"
    " these settings; set them where the program creates the session: %s"
)

_AMBIENT = {"SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"}
"""Environment variables of configurations outside of this program, which can set another Spark master."""

_QUERY_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""PySpark's loggers with separate handlers. These handlers write user data to standard error."""

log = logging.getLogger(__name__)


class RunningSpark:
    """Spark of a server: the context, the session if requested, and the Java process.

    spark = RunningSpark(settings)
    spark.start()
    spark.context.parallelize(range(3)).count()
    spark.stop()
    """

    def __init__(self, settings: SparkSettings) -> None:
        """Creates the object, and starts nothing yet."""
        self._settings = settings
        self._context: SparkContext | None = None
        self._session: SparkSession | None = None
        self._java: JavaProcess | None = None
        self._folder: TemporaryFolder | None = None
        self._left: list[Path] = []
        # Use a reentrant lock: a signal handler can interrupt a thread that holds the lock, and
        # call `kill` in the same thread.
        self._changing = threading.RLock()
        self._stopping = threading.Lock()
        self._killed = self._checked = False
        self._pulse = SparkHealthCheck(self._is_context_running)

    @property
    def context(self) -> SparkContext:
        """The context for RDDs. Available after `start`."""
        if self._context is None:
            raise RuntimeError("Spark has not started yet")
        return self._context

    @property
    def session(self) -> SparkSession:
        """The session for DataFrames, created on first access, because it costs Java 2 s of CPU time."""
        with self._changing:
            if self._session is None:
                self._session = SparkSession(self.context)
            return self._session

    @property
    def master(self) -> str:
        """The master URL in use, such as ``local[*,4]``."""
        return str(self.context.master)

    @property
    def version(self) -> str:
        """Spark's version, such as ``4.3.0``."""
        return str(self.context.version)

    @property
    def slots(self) -> int | None:
        """Number of tasks that Spark runs in parallel; None if the number depends on the cluster,
        or if a program also uses Spark.
        """
        return None if self._settings.session is not None else count_slots_of_master(self.master)

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables for Python workers."""
        path = self._settings.python_path
        if not path or not is_on_this_machine(self.master):
            return {}
        theirs = self.context.environment.get("PYTHONPATH")
        return {"PYTHONPATH": os.pathsep.join((path, theirs) if theirs else (path,))}

    @property
    def is_alive(self) -> bool:
        """Returns whether Spark runs; takes about 1 ms. A Java process that doesn't answer within 2 s
        counts as running.
        """
        if self._context is None or (self._java is not None and not self._java.is_alive):
            return False
        return self._pulse.is_healthy() is not False

    def _is_context_running(self) -> bool:
        try:
            return not self.context._jsc.sc().isStopped()
        except Exception:  # any error that the bridge raises if the Java process is gone
            return False

    def check_requirements(self) -> None:
        """Checks the requirements of `start`, which calls this method if the caller hasn't.

        Raises:
            SparkUnavailable: Java is missing, or only Spark Connect is available; the text says
                what to do.
        """
        if self._checked or self._settings.session is not None:
            return
        reject_spark_connect(self._settings.conf)
        if SUBMITTED not in os.environ:
            check_java()
        self._checked = True

    def begin_startup(self) -> None:
        """Starts the Java process that `start` will wait for, if `start` would start one; starts no
        thread.

        Errors are left to `start`.
        """
        if not will_start_local_spark(self._settings):
            return
        with contextlib.suppress(SparkUnavailable):
            self.check_requirements()
            if self._settings.master is not None:
                check_master(self._settings.master)
            self._ensure_java()

    @property
    def pipes(self) -> tuple[int, ...]:
        """Files for the standard streams of the Java process; None without a Java process. A forked
        process must close them, so that Java exits with this process.
        """
        return () if self._java is None else self._java.pipes

    def start(self) -> None:
        """Starts Spark, or uses the existing session. Takes about 4 s.

        Raises:
            SparkUnavailable: Java is missing, the master URL is wrong or unreachable, Spark doesn't
                start, `kill` was called meanwhile, or the existing session can't be used. The text
                is one sentence. Nothing of Spark remains.
        """
        there = self._settings.session or find_session()
        if there is not None:
            missing = find_missing_settings(there)
            if missing:
                log.warning(_LACKING, missing)
            self._context, self._session = there.sparkContext, there
            return
        self.check_requirements()
        _silence_query_errors()
        if self._settings.master is not None:
            check_master(self._settings.master)
        if (known := _require_known_master(self._settings)) is not None:
            check_master_reachable(known)
        try:
            gateway = self._start_gateway()
            assert self._folder is not None
            self._context = self._start_context(gateway, self._folder.path)
            self._left = _list_executor_folders(self._context)
        except BaseException:
            self.kill()
            raise

    def _start_gateway(self) -> Any:
        """Returns the gateway to a Java process, an existing or a new one."""
        if SUBMITTED in os.environ:
            self._folder = TemporaryFolder()
            return launch_gateway()
        return self._ensure_java().connect()

    def _ensure_java(self) -> JavaProcess:
        """Returns the Java process. Starts the process if necessary."""
        with self._changing:
            if self._killed:
                raise SparkUnavailable("Spark was stopped during its start.")
            self._folder = self._folder or TemporaryFolder()
            self._java = self._java or _start_java(self._settings, self._folder.path)
            return self._java

    def _start_context(self, gateway: Any, folder: Path) -> SparkContext:
        found = dict(SparkConf(_jvm=gateway.jvm).getAll())
        chosen = make_session_properties(found, self._settings, folder)
        check_master_reachable(chosen["spark.master"])
        conf = SparkConf(_jvm=gateway.jvm).setAll(list(chosen.items()))
        try:
            with set_temporary_environment(PYSPARK_PYTHON=find_worker_python(chosen)):
                return SparkContext(conf=conf, gateway=gateway)
        except Exception as error:
            raise SparkUnavailable(
                f"Can't start Spark with master {chosen['spark.master']}: "
                f"{find_failure_reason(error)}"
            ) from error

    def stop(self, limit: float | None = None) -> None:
        """Ends the session, and all processes that were started for the session, within about
        ``limit`` seconds.

        The default limit is `session_stop_seconds`. Afterwards no Java process, Python daemon, worker or
        file remains. A session that existed before is left alone. May be called again, and from any
        thread.
        """
        limit = SPARK_LIMITS.session_stop_seconds if limit is None else limit
        with self._stopping:
            if self._context is None:
                self.kill()  # end the Java process, if it was started
                return
            if self._folder is None:
                return
            if self.is_alive:
                _run_with_time_limit(limit * 2 / 3, (self._session or self._context).stop)
            if self._java is not None:
                self._java.stop(limit / 3)
            self._clean_up()

    def kill(self) -> None:
        """Kills the started processes at once, even while they start; leaves no file."""
        with self._changing:
            self._killed = True
            if self._java is not None:
                self._java.kill()
            self._clean_up()

    def _clean_up(self) -> None:
        if self._java is not None:
            SparkContext._gateway = None  # otherwise PySpark would use the process that is gone
            SparkContext._jvm = None
        for folder in self._left:
            shutil.rmtree(folder, ignore_errors=True)
        if self._folder is not None:
            self._folder.remove_folder()


def will_start_local_spark(settings: SparkSettings) -> bool:
    """Returns whether `RunningSpark.start` starts a local Spark in one process, whose Python
    workers use this interpreter.
    """
    if settings.session is not None or SUBMITTED in os.environ or find_session() is not None:
        return False
    master = _require_known_master(settings)
    return (
        master is not None
        and is_single_process(master)
        and find_worker_python(settings.conf) == sys.executable
    )


def _require_known_master(settings: SparkSettings) -> str | None:
    """Returns the master URL of the settings; empty if a configuration outside of this program can set the URL."""
    named = settings.master or settings.conf.get("spark.master")
    return named or (None if _AMBIENT & os.environ.keys() else DEFAULT_MASTER)


def start_spark(settings: SparkSettings) -> RunningSpark:
    """Returns a started `RunningSpark`; raises the errors of `RunningSpark.start`."""
    spark = RunningSpark(settings)
    spark.start()
    return spark


def _silence_query_errors() -> None:
    """Stops PySpark from writing errors of queries to standard error. The job reports them, and they
    contain texts of users.
    """
    with contextlib.suppress(ImportError):  # PySpark before 4.0 doesn't write them
        from pyspark.logger import PySparkLogger

        for name in _QUERY_LOGGERS:
            PySparkLogger.getLogger(name).disabled = True


def _start_java(settings: SparkSettings, folder: Path) -> JavaProcess:
    log4j = importlib.resources.files(__package__).joinpath("log4j2.properties")
    log4j_file = folder / "log4j2.properties"
    log4j_file.write_text(log4j.read_text())
    conf = dict(settings.conf)
    if settings.master is not None:
        conf["spark.master"] = settings.master
    master = _require_known_master(settings)
    theirs = conf.get("spark.driver.extraJavaOptions", "")
    options = make_java_options(folder, log4j_file, settings.log_level, theirs)
    options += make_archive_use_options(f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} {theirs}")
    variables = {
        "PYSPARK_PYTHON": find_worker_python(conf),
        **make_java_home_variables(os.environ, folder),
    }
    if master is not None and is_on_this_machine(master):
        variables["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
        try:
            heap = compute_driver_heap_size(os.cpu_count() or 1, read_memory_limit())
        except ValueError as error:
            raise SparkUnavailable(str(error)) from None
        conf.setdefault("spark.driver.memory", heap)
    with set_temporary_environment(**variables):
        return JavaProcess(options, conf, folder)


def find_worker_python(conf: Mapping[str, str]) -> str:
    """Returns the Python of workers: this one, or the one that the user has selected, in Spark's order
    of precedence.
    """
    return conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable


def _list_executor_folders(context: SparkContext) -> list[Path]:
    """Returns the folders of a ``local-cluster``'s executors, which Spark never removes."""
    if not context.master.startswith("local-cluster"):
        return []
    return [Path(_find_spark_home(), "work", context.applicationId)]


def _run_with_time_limit(limit: float, stop: Callable[[], None]) -> None:
    """Calls ``stop``, and waits at most ``limit`` seconds until ``stop`` returns, because the Java
    process is ended in any case.
    """
    left_behind = threading.Event()

    def call_stop() -> None:
        try:
            stop()
        except Exception as failure:
            if not left_behind.is_set():
                log.warning(
                    "Spark raised an error at its shutdown: %s", find_failure_reason(failure)
                )

    thread = start_helper_thread(call_stop, "stop-spark")
    thread.join(limit)
    if thread.is_alive():
        left_behind.set()
        log.warning("Spark did not stop within %.0f seconds", limit)
