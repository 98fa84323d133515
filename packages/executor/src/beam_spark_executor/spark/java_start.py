"""Start of the Java process for a server's settings: which Python, options and heap it gets.

Nothing here imports PySpark, so that Java starts as early as possible.
"""

from __future__ import annotations

import importlib.resources
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from beam_runner_runtime.memory import read_memory_limit
from beam_spark_io.sessions import find_session

from beam_spark_executor.spark.class_sharing import make_archive_use_options
from beam_spark_executor.spark.existing_session import SUBMITTED
from beam_spark_executor.spark.java import JavaProcess, set_temporary_environment
from beam_spark_executor.spark.java_wheel import make_java_home_variables
from beam_spark_executor.spark.settings import (
    DEFAULT_MASTER,
    SparkSettings,
    SparkUnavailable,
    compute_driver_heap_size,
    is_on_this_machine,
    is_single_process,
    make_java_options,
)

_AMBIENT = {"SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"}
"""Environment variables of configurations outside of this program, which can set another Spark master."""


def will_start_local_spark(settings: SparkSettings) -> bool:
    """Returns whether `RunningSpark.start` starts a local Spark in one process, whose Python
    workers use this interpreter.
    """
    if settings.session is not None or SUBMITTED in os.environ or find_session() is not None:
        return False
    master = find_known_master(settings)
    return (
        master is not None
        and is_single_process(master)
        and find_worker_python(settings.conf) == sys.executable
    )


def find_known_master(settings: SparkSettings) -> str | None:
    """Returns the master URL of the settings; empty if a configuration outside of this program can set the URL."""
    named = settings.master or settings.conf.get("spark.master")
    return named or (None if _AMBIENT & os.environ.keys() else DEFAULT_MASTER)


def start_java(settings: SparkSettings, folder: Path) -> JavaProcess:
    """Starts the Java process, and doesn't wait for it.

    Args:
        folder: the server's folder for temporary files of Spark.

    Raises:
        SparkUnavailable: the machine's memory limit can't be read as a number.
    """
    log4j = importlib.resources.files(__package__).joinpath("log4j2.properties")
    log4j_file = folder / "log4j2.properties"
    log4j_file.write_text(log4j.read_text())
    conf = dict(settings.conf)
    if settings.master is not None:
        conf["spark.master"] = settings.master
    master = find_known_master(settings)
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
