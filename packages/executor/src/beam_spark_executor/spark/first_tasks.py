"""First Spark tasks of a server: start Python workers in advance, and check on a cluster whether bundles can run."""

from __future__ import annotations

import logging
import re
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from beam_runner_runtime.bundles.preflight import BundleRequirements, find_unmet_requirement
from beam_spark_io.spark.reasons import find_failure_reason
from pyspark import SparkContext

from beam_spark_executor.spark.pool import WorkerPools
from beam_spark_executor.spark.settings import SparkUnavailable, is_on_this_machine
from beam_spark_executor.spark.threads import start_job_thread

LIMIT_SECONDS = 300.0
"""Maximum time in seconds to wait for executors. The limit is long, because some clusters start machines first."""
_SAY_SO_SECONDS = 15.0
_GROUP = "beam-first-tasks"
_Answer = TypeVar("_Answer")
_LOGGER = logging.getLogger(__name__)


def warm_up_cores(context: SparkContext, pools: WorkerPools, limit: float = LIMIT_SECONDS) -> None:
    """Runs a short Spark job on all cores, in the pool of Python workers that the first Beam job
    will use.

    After this job, Spark's Python daemon has imported the modules that tasks need, which would
    otherwise delay the first bundle by 2 to 4 s.

    Raises:
        SparkUnavailable: Spark has run no task within the limit, or failed.
    """
    _run_on_every_core(context, pools, _do_nothing, limit)


def check_executors(
    context: SparkContext,
    pools: WorkerPools,
    needs: BundleRequirements,
    limit: float = LIMIT_SECONDS,
) -> frozenset[str]:
    """Starts Python workers on all cores, and checks in each worker everything that bundles need.

    Returns:
        The names of the hosts on which the tasks ran.

    Raises:
        SparkUnavailable: a check failed, or no executor came within the limit; the text says on
            which host, what, and what to do.
    """
    told = _run_on_every_core(context, pools, partial(_check_executor, needs), limit)
    troubles = sorted({(trouble, host) for host, trouble in told if trouble})
    if troubles:
        trouble, host = troubles[0]
        others = len({found for _, found in troubles} - {host})
        more = f" (and on {others} more)" if others else ""
        raise SparkUnavailable(f"bundles can't run on the executor's host {host}{more}: {trouble}")
    hosts = frozenset(host for host, _ in told)
    _LOGGER.info("executors respond on %s", ", ".join(sorted(hosts)))
    return hosts


def _run_on_every_core(
    context: SparkContext, pools: WorkerPools, function: Callable[[], _Answer], limit: float
) -> list[_Answer]:
    """Runs one task on every core, and returns the results of the tasks."""
    answers: list[list[_Answer]] = []
    failures: list[BaseException] = []
    slot = pools.acquire_slot()

    def run_task() -> None:
        context.setJobGroup(_GROUP, "first tasks", interruptOnCancel=True)
        answers.append(pools.run_tasks(function, context.defaultParallelism, slot))

    thread = start_job_thread("first-tasks", run_task, failures.append)
    try:
        _wait_for_tasks(thread, str(context.master), limit, lambda: context.cancelJobGroup(_GROUP))
    except SparkUnavailable:
        pools.retire_slot(slot)
        raise
    pools.release_slot(slot)
    if failures:
        raise SparkUnavailable(explain_python_failure(failures[0])) from failures[0]
    return answers[0]


def _wait_for_tasks(
    thread: threading.Thread, master: str, limit: float, give_up: Callable[[], None]
) -> None:
    thread.join(min(_SAY_SO_SECONDS, limit))
    if thread.is_alive() and limit > _SAY_SO_SECONDS:
        # Don't warn about a late task on one machine: the machine is busy, and no executor is missing.
        level = logging.INFO if is_on_this_machine(master) else logging.WARNING
        text = "%s has not run its first tasks yet; the limit is %.0f s"
        _LOGGER.log(level, text, master, limit)
        thread.join(limit - _SAY_SO_SECONDS)
    if thread.is_alive():
        give_up()
        raise SparkUnavailable(
            f"{master} has not run a task within {limit:.0f} s: it has no executor for"
            " this server. Check that its workers run, that they have as many free"
            " cores and as much free memory as spark.executor.cores and"
            " spark.executor.memory request, and that they can reach spark.driver.host."
            " Spark's log lines can say more"
        )


def explain_python_failure(failure: BaseException) -> str:
    """Returns one sentence that explains Spark's error message about a Python process that Spark
    couldn't start.
    """
    error = str(failure)
    if re.search(r"No module named 'beam_(runner|spark)_", error):
        return (
            "the Python of executors has no beam_spark_executor: provide the server's"
            " environment, installed on the machines of executors or by spark.archives,"
            " and set spark.pyspark.python to its Python"
        )
    if "Cannot run program" in error:
        program = error.partition("Cannot run program")[2].split("\n", 1)[0].strip()
        return (
            f"executors can't start Python: {program}; set spark.pyspark.python to a"
            " Python that executors have"
        )
    for line in error.splitlines():
        if "PYTHON_VERSION_MISMATCH" in line:
            return f"{line.strip()} Set spark.pyspark.python to the Python of executors"
    return f"Spark's first tasks failed: {find_failure_reason(failure)}"


def _do_nothing() -> None:
    """Does nothing, as a Spark task."""


def _check_executor(needs: BundleRequirements) -> tuple[str, str]:
    """Yields the name of this host, and a text about the problem that prevents bundles on this
    host; empty without a problem.
    """
    return socket.gethostname(), find_unmet_requirement(needs)
