"""Replacement for PySpark's daemon (the process that forks Python workers), which imports all
modules that tasks need in advance.

The setting ``spark.python.daemon.module`` makes Spark start ``python -m
beam_spark_executor.spark.python_daemon pyspark.worker``, once for each pool of workers. If the
operating system supports it, all daemons of a Java process are forked from one process that has
imported the modules (:mod:`~beam_spark_executor.spark.fork_server`). Forked workers share the
memory of the imported modules. Python's garbage collector ignores these modules in the workers,
which makes the full collection after each task fast.

Workers exit with ``os._exit``, which runs no ``atexit`` functions; use `register_exit_hook`
instead. The hooks also work with Spark's own daemon.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
import signal
import sys
import threading
import time
import zipimport
from collections.abc import Callable, Sequence
from types import FrameType
from typing import BinaryIO, NoReturn

from beam_runner_runtime.channel.exits import ExitRecorder
from beam_runner_runtime.processes import reaper
from beam_runner_runtime.processes.forked_process import ForkedProcess
from beam_runner_runtime.processes.preload import (
    import_worker_modules,
    prefer_as_out_of_memory_victim,
)

from beam_spark_executor.spark import fork_server
from beam_spark_executor.spark.shutdown import SPARK_LIMITS

_WARM_MODULES = (
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "beam_spark_executor.spark.lane",
)
"""The additional modules that Spark's workers need."""

log = logging.getLogger(__name__)

_hooks: dict[int, list[Callable[[], None]]] = {}


def register_exit_hook(hook: Callable[[], None]) -> None:
    """Registers ``hook`` to run once before this Python worker process exits normally.

    A worker exits when Spark closes it after a minute without work, when a task in it fails, when
    the driver stops, and in `exit_worker`. Hooks run in the main thread, the last one first, within
    `worker_exit_seconds` for all of them. They don't run if the process crashes or is killed, as
    Spark does with the worker of a cancelled task.

    Call it in the main thread of a task.
    """
    hooks = _hooks.setdefault(os.getpid(), [])
    if not hooks:
        _run_hooks_after_last_task()
        _handle_hangup()
        signal.signal(
            signal.SIGALRM, signal.SIG_DFL
        )  # a hook that hangs is killed with the process
    hooks.append(hook)


def exit_worker() -> NoReturn:
    """Ends this Python worker process after its exit hooks; may be called from any thread.

    The function is meant for idle workers. Inside a task, the hooks run as soon as the main thread allows it,
    and after `worker_exit_seconds` the process exits in any case.
    """
    if os.getpid() not in _hooks:
        os._exit(0)
    signal.alarm(SPARK_LIMITS.worker_exit_seconds)
    if threading.current_thread() is threading.main_thread():
        _run_exit_hooks()
        os._exit(0)
    os.kill(os.getpid(), signal.SIGHUP)
    time.sleep(SPARK_LIMITS.worker_exit_seconds + 1)
    os._exit(1)


def _run_exit_hooks() -> None:
    if os.getpid() not in _hooks:
        return
    signal.signal(
        signal.SIGHUP, signal.SIG_IGN
    )  # the daemon sends SIGHUP twice, and the hooks run once
    hooks = _hooks.pop(os.getpid())
    signal.alarm(SPARK_LIMITS.worker_exit_seconds)
    for hook in reversed(hooks):
        try:
            hook()
        except Exception:
            log.exception("an exit hook of a Python worker failed")
    signal.alarm(0)


def _handle_hangup() -> None:
    """Makes SIGHUP run the exit hooks of this process, because the daemon sends SIGHUP to its workers when it stops."""

    def exit_on_hangup(signal_number: int, frame: FrameType | None) -> None:
        exit_worker()

    if os.getpid() in _hooks:
        signal.signal(signal.SIGHUP, exit_on_hangup)


def _run_hooks_after_last_task() -> None:
    """Makes the exit hooks run after the last task of the process, which is a call of
    ``pyspark.worker.main``.

    For each task, the daemon calls ``main`` of this module. If Spark has closed the worker's
    socket, ``main`` raises `SystemExit`, and the process exits.
    """
    import pyspark.worker

    stock = pyspark.worker.main
    if getattr(stock, "runs_exit_hooks", False):
        return

    @functools.wraps(stock)
    def main(infile: BinaryIO, outfile: BinaryIO) -> None:
        # Become the parent of orphaned processes of user code while this worker runs. After its
        # exit, the reaper becomes their parent.
        reaper.adopt_orphans()
        _handle_hangup()
        is_last = True
        try:
            stock(infile, outfile)
            is_last = not os.environ.get("SPARK_REUSE_WORKER")
        finally:
            if is_last:
                try:
                    outfile.flush()  # send an error report before the hooks run
                except OSError:
                    _discard_output(outfile)
                _run_exit_hooks()

    main.runs_exit_hooks = True  # type: ignore[attr-defined]
    pyspark.worker.main = main


def _discard_output(outfile: BinaryIO) -> None:
    """Discards the rest of the output, because Spark has closed the task's socket. Otherwise, the
    daemon would log an error.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, outfile.fileno())
    os.close(null)


def _import_task_modules() -> None:
    import_worker_modules(_WARM_MODULES)
    _forget_zip_importers()


def _forget_zip_importers() -> None:
    """Removes cached importers of Spark's archives, which saves 0.13 s in the first task of every
    worker.

    PySpark invalidates the import caches in a worker's first task. Each cached importer of a zip
    file then reads that file's directory again, and Spark puts ``pyspark.zip`` and a large jar on
    the path. Removed importers are created again when needed, from the directories already read.
    """
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimport.zipimporter):
            del sys.path_importer_cache[path]


def _record_exits() -> ExitRecorder:
    """Makes this daemon record the exit statuses of its workers.

    The function must replace PySpark's setting to ignore SIGCHLD, because with this setting the
    kernel discards exit statuses.
    """
    daemon, recorder = os.getpid(), ExitRecorder()
    recorder.install_fork_hooks()

    def handle_child_exits() -> None:
        if os.getpid() == daemon and signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, lambda number, frame: recorder.reap_children())

    os.register_at_fork(before=handle_child_exits)
    return recorder


def _exit_when_idle(recorder: ExitRecorder) -> None:
    """Ends this daemon after `daemon_idle_seconds` without workers.

    Each concurrent job has a separate daemon, which isn't needed after the job. If a daemon is
    missing, Spark starts a new daemon.

    The limit must exceed the time for which Spark remembers idle workers. Spark treats workers that
    exited after their task as idle, and forgets them one minute after their last task (it checks
    every 10 s). If Spark selects such a worker for a task and the daemon has exited, the task
    fails.
    """
    busy = time.monotonic()

    def exit_if_idle(signal_number: int, frame: FrameType | None) -> None:
        nonlocal busy
        recorder.reap_children()
        if recorder.has_children:
            busy = time.monotonic()
        elif time.monotonic() - busy > SPARK_LIMITS.daemon_idle_seconds:
            os.kill(os.getpid(), signal.SIGTERM)

    # Use a timer and not a thread, because forks of a process with several threads are unsafe.
    # Workers don't inherit timers.
    signal.signal(signal.SIGALRM, exit_if_idle)
    signal.setitimer(signal.ITIMER_REAL, 1, 1)


def _run_daemon() -> None:
    """Runs PySpark's daemon: forks workers until Spark closes the standard input or ends this
    process, or until the process is idle.
    """
    import pyspark.daemon

    prefer_as_out_of_memory_victim()
    _run_hooks_after_last_task()
    _exit_when_idle(_record_exits())
    pyspark.daemon.manager()


def _import_modules_quietly() -> None:
    """Imports the modules that tasks need, without writing to the standard output that Spark reads."""
    answer = os.dup(1)
    os.dup2(
        2, 1
    )  # Spark reads the socket's name from the standard output, so the output of imports must not go there
    _import_task_modules()
    os.dup2(answer, 1)
    os.close(answer)


def start_fork_server(not_its: Sequence[int]) -> ForkedProcess:
    """Returns a fork server for the daemons of this server's Java process. The process must have one
    thread.

    Args:
        not_its: see `ForkedProcess`.
    """
    listener = fork_server.open_job_server_socket()
    try:
        return ForkedProcess(
            lambda: fork_server.serve_fork_requests(listener, _import_task_modules, _run_daemon),
            not_its,
        )
    finally:
        listener.close()


def main() -> None:
    """Runs a daemon that the fork server forks, and waits for its exit. Without a fork server, runs
    the daemon in this process.
    """
    if fork_server.is_fork_server_supported():
        try:
            fork_server.run_daemon_in_fork(_import_task_modules, _run_daemon)
            return
        except ConnectionError as error:
            sys.stderr.write(f"a Python daemon imports by itself: {error}\n")
    _import_modules_quietly()
    _run_daemon()


if __name__ == "__main__":
    # Register this module under its own name (and not only as ``__main__``), so that tasks that
    # import it get the same module.
    importlib.import_module("beam_spark_executor.spark.python_daemon").main()
