"""The one long-lived Spark session of a server: started, or taken from around us, and stopped.

There are three ways to a session:

- an active session in this process is taken as it is, and left running at the end;
- under ``spark-submit`` the Java process is there: a session is made in it, whose settings are
  those of the submission, then ours where it says nothing;
- else a Java process is started, which ends with the session.
"""

from __future__ import annotations

import importlib.resources
import logging
import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from beam_spark_executor.spark.java import JavaProcess, check_java, set_in_environment
from beam_spark_executor.spark.settings import (
    DEFAULT_MASTER,
    SparkSettings,
    SparkUnavailable,
    check_master,
    chosen_conf,
    driver_memory,
    is_on_this_machine,
    java_options,
)

_AMBIENT = {"SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"}
"""Environment variables by which a configuration that we do not see may name another master."""

STOP_LIMIT_SECONDS = 15.0

log = logging.getLogger(__name__)


class RunningSpark:
    """A Spark session and what it stands on; made by `start_spark`."""

    def __init__(
        self, session: SparkSession, java: JavaProcess | None, folder: Path | None
    ) -> None:
        self.session = session
        self._java = java
        self._folders = () if folder is None else (folder, *_left_by_executors(session))
        self._stopping = threading.Lock()
        self._stopped = False

    @property
    def master(self) -> str:
        """The master URL in use, as in ``local[*,4]``."""
        return str(self.session.sparkContext.master)

    @property
    def version(self) -> str:
        """Spark's version, as in ``4.3.0``."""
        return str(self.session.version)

    @property
    def is_alive(self) -> bool:
        """Whether Spark still runs; costs about a millisecond."""
        try:
            return not self.session.sparkContext._jsc.sc().isStopped()
        except Exception:  # whatever the bridge to a Java process that is gone comes up with
            return False

    def kill(self) -> None:
        """Ends at once what was started for the session, whatever it does; leaves no file."""
        if self._java is not None:
            self._java.kill()
        self._remove_files()

    def stop(self, limit: float = STOP_LIMIT_SECONDS) -> None:
        """Ends the session and everything that was started for it, within about ``limit`` seconds.

        Afterwards no Java process, Python daemon or worker is left, and no file. A session that was
        there before us is left alone. May be called again, and from any thread.
        """
        with self._stopping:
            if self._stopped:
                return
            self._stopped = True
            if not self._folders:
                return
            _within(limit * 2 / 3, "stop-spark", self.session.stop)
            if self._java is not None:
                self._java.gateway.shutdown()
                self._java.stop(limit / 3)
                _forget_gateway()
            self._remove_files()

    def _remove_files(self) -> None:
        for folder in self._folders:
            shutil.rmtree(folder, ignore_errors=True)


def start_spark(settings: SparkSettings) -> RunningSpark:
    """Starts Spark, or takes the session that is there.

    Costs about four seconds for a new Java process.

    Raises:
        SparkUnavailable: there is no Java, the master URL is wrong or unreachable, or Spark does not
            start; the text is one sentence.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return RunningSpark(active, None, None)
    if settings.master is not None:
        check_master(settings.master)
    folder = Path(tempfile.mkdtemp(prefix="beam-spark-"))
    java = None
    try:
        if "PYSPARK_GATEWAY_PORT" in os.environ:
            from pyspark.java_gateway import launch_gateway

            gateway = launch_gateway()
        else:
            check_java()
            java = _start_java(settings, folder)
            gateway = java.gateway
        return RunningSpark(_start_session(settings, gateway, folder), java, folder)
    except BaseException:
        if java is not None:
            java.gateway.shutdown()
            java.stop(limit=5.0)
            _forget_gateway()
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _start_java(settings: SparkSettings, folder: Path) -> JavaProcess:
    log4j = importlib.resources.files(__package__).joinpath("log4j2.properties")
    log4j_file = folder / "log4j2.properties"
    log4j_file.write_text(log4j.read_text())
    conf = dict(settings.conf)
    if settings.master is not None:
        conf["spark.master"] = settings.master
    options = java_options(
        folder, log4j_file, settings.log_level, conf.get("spark.driver.extraJavaOptions", "")
    )
    variables = {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)}
    master = conf.get("spark.master") or (None if _AMBIENT & os.environ.keys() else DEFAULT_MASTER)
    if master is not None and is_on_this_machine(master):
        variables["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        conf.setdefault("spark.driver.memory", driver_memory(os.cpu_count() or 1, memory))
    with set_in_environment(**variables):
        return JavaProcess(options, conf)


def _start_session(settings: SparkSettings, gateway: Any, folder: Path) -> SparkSession:
    found = dict(SparkConf(_jvm=gateway.jvm).getAll())
    chosen = chosen_conf(found, settings, folder)
    conf = SparkConf(_jvm=gateway.jvm).setAll(list(chosen.items()))
    try:
        with set_in_environment(PYSPARK_PYTHON=os.environ.get("PYSPARK_PYTHON", sys.executable)):
            context = SparkContext(conf=conf, gateway=gateway)
        return SparkSession(context)
    except Exception as error:
        raise SparkUnavailable(
            f"Spark does not start with master {chosen['spark.master']}: {_first_line(error)}"
        ) from error


def _left_by_executors(session: SparkSession) -> tuple[Path, ...]:
    """Where the executors of a ``local-cluster`` keep their files, which Spark never removes."""
    context = session.sparkContext
    if not context.master.startswith("local-cluster"):
        return ()
    return (Path(_find_spark_home(), "work", context.applicationId),)


def _first_line(error: Exception) -> str:
    java_exception = getattr(error, "java_exception", None)
    text = str(java_exception.toString() if java_exception is not None else error)
    return text.strip().splitlines()[0] if text.strip() else type(error).__name__


def _forget_gateway() -> None:
    """Lets a later session start a Java process of its own: PySpark remembers the dead one."""
    SparkContext._gateway = None
    SparkContext._jvm = None


def _within(limit: float, name: str, work: Any) -> None:
    """Runs ``work`` for at most ``limit`` seconds; what it raises is logged, and it may be left behind."""

    def run() -> None:
        try:
            work()
        except Exception:
            log.warning("%s failed", name, exc_info=True)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    thread.join(limit)
    if thread.is_alive():
        log.warning("%s did not end within %.0f seconds", name, limit)
