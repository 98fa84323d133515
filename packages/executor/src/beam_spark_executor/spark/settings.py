"""Default Spark settings of a server, which the user's settings override. All values are results of
measurements.

The measurements are in ``docs/adr/0002-spark-settings.md``.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from beam_runner_model.errors import Unavailable
from beam_runner_runtime.memory import VARIABLE
from beam_runner_runtime.tuning import TUNING

from beam_spark_executor.spark.executor_memory import compute_executor_memory_limit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[*,4]"
"""The default master: all cores, and four attempts of a task. Plain ``local[*]`` never retries a task."""

_SET_BY_SPARK_SUBMIT = {
    "spark.master": "local[*]",
    "spark.app.name": "pyspark-shell",
    "spark.ui.showConsoleProgress": "true",
}
"""Properties that ``spark-submit`` sets because it treats this program as a PySpark shell."""

_TABLES = "spark.sql.warehouse.dir"
_FORGETS = "in-memory"
"""Name of the in-memory catalog. The tables of this catalog don't exist after Spark's end, so the
files of the tables can be removed.
"""

_LEAST_HEAP_MB = 512
"""The minimum heap in MiB; Spark refuses to start with less than 450 MiB."""

_LONGEST_SOCKET_PATH = 100
_SOCKET_NAME = len(".00000000-0000-0000-0000-000000000000.sock") + 1

_CHOOSES_COMPILERS = re.compile(
    r"-XX:([-+]TieredCompilation|TieredStopAtLevel|CompilationMode|Tier4)"
)
_SECOND_COMPILER_LATE = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
"""Java options that multiply the thresholds of the optimizing compiler by ten, because only tables
with millions of rows benefit from it.
"""

_MASTERS = (
    r"local",
    r"local\[(\d+|\*)(,\s*\d+)?\]",
    r"local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]",
    r"spark://[^/\s:,]+:\d+(,[^/\s:,]+:\d+)*",
    r"yarn",
    r"k8s://\S+",
)


class SparkUnavailable(Unavailable):
    """Raised if Spark can't start; the text is one sentence for the user at the terminal."""


@attrs.frozen
class SparkSettings:
    """Settings of the Spark session that a server starts or uses.

    Attributes:
        master: a Spark master URL; ``None`` uses the one of the existing configuration
            (``spark-submit``, ``spark-defaults.conf``), or `DEFAULT_MASTER`.
        conf: the user's Spark properties, which override everything else.
        log_level: the level of Spark's own log lines: ``error``, ``warn``, ``info`` or ``debug``.
        session: an existing session to use and leave running; ``None`` creates one.
        python_path: additional import paths for workers on this machine, in the form of
            ``PYTHONPATH``.
    """

    master: str | None = None
    conf: Mapping[str, str] = attrs.field(factory=dict)
    log_level: str = "warn"
    session: SparkSession | None = None
    python_path: str = ""


def check_master(master: str) -> None:
    """Raises an error for a master URL that Spark doesn't understand.

    Raises:
        SparkUnavailable: the text names the valid forms.
    """
    if master.startswith("sc://"):
        raise SparkUnavailable(
            f"Spark Connect ({master}) is not supported: set the master URL of the cluster itself."
        )
    if not any(re.fullmatch(pattern, master) for pattern in _MASTERS):
        raise SparkUnavailable(
            f"{master!r} is not a Spark master URL; expected local, local[N], local[N,attempts], "
            "local[*,4], local-cluster[workers,cores,MiB], spark://host:port, yarn or k8s://url."
        )


def is_on_this_machine(master: str) -> bool:
    """Returns whether all executors run on this machine, so that other machines don't have to reach the server."""
    return master.startswith("local")


def is_single_process(master: str) -> bool:
    """Returns whether the driver's process runs the tasks, without separate executors."""
    return master == "local" or master.startswith("local[")


def make_default_properties(master: str, folder: Path) -> dict[str, str]:
    """Returns the server's default settings for Spark with the URL ``master`` and with files in
    ``folder``.

    Spark's scratch files (``spark.local.dir``) are in Java's folder for temporary files, which
    `make_java_options` sets, unless the user has selected another folder.
    """
    conf = {
        "spark.app.name": "beam-spark-jobserver",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.adaptive.enabled": "false",
        _TABLES: str(folder / "warehouse"),
        "spark.scheduler.mode": "FAIR",
        # A section starts with little data on one executor. Without this setting, tasks on other
        # executors would wait 3 s for data locality.
        "spark.shuffle.reduceLocality.enabled": "false",
        "spark.python.daemon.module": "beam_spark_executor.spark.python_daemon",
        "spark.python.worker.reuse": "true",
        "spark.python.unix.domain.socket.enabled": str(
            _has_short_socket_paths(master, folder)
        ).lower(),
        "spark.python.task.killTimeout": "500ms",
    }
    if is_on_this_machine(master):
        # Spark's web UI takes about a second of the start. On a cluster, keep Spark's default,
        # because users of a cluster expect the web UI.
        conf["spark.ui.enabled"] = "false"
        conf["spark.driver.bindAddress"] = "127.0.0.1"
        conf["spark.driver.host"] = "127.0.0.1"
        conf["spark.executor.extraJavaOptions"] = f"-Djava.io.tmpdir={folder} -XX:-UsePerfData"
        conf["spark.python.unix.domain.socket.dir"] = str(folder)
        conf["spark.shuffle.compress"] = "false"
        conf["spark.shuffle.spill.compress"] = "false"
    return conf


def _has_short_socket_paths(master: str, folder: Path) -> bool:
    """Returns whether paths of Unix sockets in the folder stay below the limit of operating systems.

    Containers of YARN have folders for temporary files with long paths, which only YARN knows.
    """
    if master == "yarn":
        return False
    path = str(folder) if is_on_this_machine(master) else tempfile.gettempdir()
    return len(path) + _SOCKET_NAME <= _LONGEST_SOCKET_PATH


def make_session_properties(
    found: Mapping[str, str], settings: SparkSettings, folder: Path
) -> dict[str, str]:
    """Returns all properties of the session: the user's, then those ``found`` in Java, then the
    server's defaults.

    ``found`` are the properties that ``spark-submit`` collected from ``spark-defaults.conf`` and
    its command line.

    Raises:
        SparkUnavailable: the master URL is invalid.
    """
    stated = {key: value for key, value in found.items() if _SET_BY_SPARK_SUBMIT.get(key) != value}
    stated.update(settings.conf)
    if settings.master is not None:
        stated["spark.master"] = settings.master
    master = stated.setdefault("spark.master", DEFAULT_MASTER)
    check_master(master)
    slots, cores = add_task_slots(master)
    defaults = make_default_properties(master, folder)
    if stated.get("spark.sql.catalogImplementation", _FORGETS) != _FORGETS:
        del defaults[_TABLES]
    conf = defaults | stated | {"spark.master": slots}
    if cores is not None:
        conf.setdefault("spark.default.parallelism", str(cores))
    if (
        not is_on_this_machine(master)
        and (memory := compute_executor_memory_limit(conf)) is not None
    ):
        conf.setdefault(f"spark.executorEnv.{VARIABLE}", str(memory))
    return conf


def add_task_slots(master: str) -> tuple[str, int | None]:
    """Returns a local master URL with more task slots than cores, and the number of cores.

    Masters other than ``local`` stay as they are, because the cluster knows its cores.
    """
    found = re.fullmatch(r"local(?:\[(\d+|\*)(?:,\s*(\d+))?\])?", master)
    if found is None:
        return master, None
    count, attempts = found.groups(default="1")
    cores = (os.cpu_count() or 1) if count == "*" else int(count)
    return f"local[{cores * TUNING.slots_per_core},{attempts}]", cores


def count_slots_of_master(master: str) -> int | None:
    """Returns the number of task slots in a local master URL such as ``local[12,4]``; None for a cluster."""
    found = re.fullmatch(r"local\[(\d+),\d+\]", master)
    return None if found is None else int(found[1])


def make_java_options(folder: Path, log4j_file: Path, log_level: str, user_options: str) -> str:
    """Returns the options of the Java process, without those that contradict ``user_options``."""
    options = [
        f"-Djava.io.tmpdir={folder}",
        f"-Dlog4j2.configurationFile={log4j_file}",
        f"-Dbeam.spark.log.level={log_level}",
        "-XX:-UsePerfData",
    ]
    if not re.search(r"-XX:\+Use\w+GC", user_options):
        options.append("-XX:+UseSerialGC")
    if not _CHOOSES_COMPILERS.search(user_options):
        options += _SECOND_COMPILER_LATE
    return " ".join(options)


def compute_driver_heap_size(cores: int, limit: int) -> str:
    """Returns the heap of a driver that runs the tasks of ``cores`` itself, as a Spark property's
    value.

    The heap is at most a quarter of the memory (bytes) that all processes may use, but at least
    Spark's minimum.
    """
    wanted = max(1024, 512 * cores)
    return f"{max(_LEAST_HEAP_MB, min(wanted, limit // 4 >> 20))}m"
