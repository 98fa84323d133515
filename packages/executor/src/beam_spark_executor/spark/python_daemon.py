"""The process that Spark forks Python workers from: it has imported all that tasks need.

Spark starts ``python -m beam_spark_executor.spark.python_daemon pyspark.worker`` because of the setting
``spark.python.daemon.module``, once for each pool of workers. All daemons of a Java process are forked
from one that has imported it all (:mod:`~beam_spark_executor.spark.fork_server`), where the system can
do that. Forked workers share the imported modules' memory, and find the garbage collector frozen, so
that the full collection after every task walks nothing of them.

Workers end by ``os._exit``, which runs no ``atexit`` functions; `register_exit_hook` is the
replacement. It also works where Spark runs its stock daemon: then only the warmth is missing.
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

from beam_runner_runtime.processes import reaper
from beam_runner_runtime.processes.warmth import be_killed_first, import_what_workers_need
from beam_runner_runtime.processes.zygote import Zygote

from beam_spark_executor.spark import fork_server
from beam_spark_executor.spark.shutdown import SPARK_LIMITS

_WARM_MODULES = (
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "beam_spark_executor.spark.lane",
)
"""What Spark's workers need besides."""

log = logging.getLogger(__name__)

_hooks: dict[int, list[Callable[[], None]]] = {}


def register_exit_hook(hook: Callable[[], None]) -> None:
    """Has ``hook`` called once before this Python worker process ends in good order.

    That is when Spark closes a worker that has been idle for a minute, when a task in it fails, when
    the driver stops, and in `exit_worker`. Hooks run in the main thread, the last one first, and
    have `worker_exit_seconds` for all of them; then the process is gone. They do not run when the
    process crashes or is killed, as Spark does with the worker of a cancelled task.

    To be called in the main thread of a task.
    """
    hooks = _hooks.setdefault(os.getpid(), [])
    if not hooks:
        _watch_tasks()
        _listen_to_hangup()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # a hook that hangs ends with the process
    hooks.append(hook)


def exit_worker() -> NoReturn:
    """Ends this Python worker process after its exit hooks; may be called from any thread.

    Meant for workers that are idle. In one that is inside a task the hooks run as soon as the main
    thread lets them, and after `worker_exit_seconds` the process is gone in any case.
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
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the daemon hangs up twice, and they run once
    hooks = _hooks.pop(os.getpid())
    signal.alarm(SPARK_LIMITS.worker_exit_seconds)
    for hook in reversed(hooks):
        try:
            hook()
        except Exception:
            log.exception("an exit hook of a Python worker failed")
    signal.alarm(0)


def _listen_to_hangup() -> None:
    """Has the hooks run on SIGHUP: the daemon sends it to its workers when it is told to stop."""

    def on_hangup(signal_number: int, frame: FrameType | None) -> None:
        exit_worker()

    if os.getpid() in _hooks:
        signal.signal(signal.SIGHUP, on_hangup)


def _watch_tasks() -> None:
    """Has the hooks run where a call of ``pyspark.worker.main``, one task, is the process's last.

    The daemon resets the worker's signals before every task, looks ``main`` up, and ends the process
    if it raises `SystemExit`; so it does when Spark has closed the worker's socket.
    """
    import pyspark.worker

    stock = pyspark.worker.main
    if getattr(stock, "runs_exit_hooks", False):
        return

    @functools.wraps(stock)
    def main(infile: BinaryIO, outfile: BinaryIO) -> None:
        # What user code leaves behind is this worker's as long as it lives, then the reaper's.
        reaper.adopt_orphans()
        _listen_to_hangup()
        is_last = True
        try:
            stock(infile, outfile)
            is_last = not os.environ.get("SPARK_REUSE_WORKER")
        finally:
            if is_last:
                try:
                    outfile.flush()  # an error report should not wait for the hooks
                except OSError:
                    _send_nowhere(outfile)
                _run_exit_hooks()

    main.runs_exit_hooks = True  # type: ignore[attr-defined]
    pyspark.worker.main = main


def _send_nowhere(outfile: BinaryIO) -> None:
    """Spark has closed the task's socket: the daemon is not to log that nobody reads what is left."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, outfile.fileno())
    os.close(null)


def _import_what_tasks_need() -> None:
    import_what_workers_need(_WARM_MODULES)
    _forget_zip_importers()


def _forget_zip_importers() -> None:
    """Spares every fresh worker the reading of Spark's archives again, 0.13 s of its first task.

    PySpark invalidates the import caches in a worker's first task, upon which each cached importer
    of a zip file reads that file's directory anew; and Spark puts ``pyspark.zip`` and a large jar on
    the path. What is forgotten is made again, from the directories already read, when needed.
    """
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimport.zipimporter):
            del sys.path_importer_cache[path]


def _end_when_idle() -> None:
    """Has this daemon end once it has had no workers for a while.

    Each job that runs beside another has a daemon of its own, which nobody needs when the crowd is
    gone. Spark starts a daemon again if it finds that there is none.

    Until then Spark may ask the daemon to end workers: Spark takes those for idle that left after their task, forgets
    them a minute after the last task, and looks every ten seconds. A task for which Spark takes such a worker fails if
    the daemon has gone in between.
    """
    busy = time.monotonic()

    def check(signal_number: int, frame: FrameType | None) -> None:
        nonlocal busy
        if _has_workers():
            busy = time.monotonic()
        elif time.monotonic() - busy > SPARK_LIMITS.daemon_idle_seconds:
            os.kill(os.getpid(), signal.SIGTERM)

    # A timer, not a thread: there must be none when workers are forked, and they inherit no timers.
    signal.signal(signal.SIGALRM, check)
    signal.setitimer(signal.ITIMER_REAL, 1, 1)


def _has_workers() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)  # SIGCHLD is ignored, so that none is left to be reaped
    except ChildProcessError:
        return False
    return True


def _run_daemon() -> None:
    """Forks workers until Spark closes the standard input or ends this process, or it is idle."""
    import pyspark.daemon

    be_killed_first()
    _watch_tasks()
    _end_when_idle()
    pyspark.daemon.manager()


def _prepare_aside() -> None:
    """Imports what tasks need where Spark reads the standard output."""
    answer = os.dup(1)
    os.dup2(2, 1)  # Spark reads the socket's name from here: what imports print must not get in
    _import_what_tasks_need()
    os.dup2(answer, 1)
    os.close(answer)


def fork_ahead(not_its: Sequence[int]) -> Zygote:
    """A fork server for the daemons of this server's Java process. To be called in a process of one thread.

    Args:
        not_its: see `Zygote`.
    """
    listener = fork_server.listen()
    try:
        return Zygote(
            lambda: fork_server.serve(listener, _import_what_tasks_need, _run_daemon), not_its
        )
    finally:
        listener.close()


def main() -> None:
    """Stands for a daemon of the fork server until that ends; is one itself where there is none."""
    if fork_server.is_possible():
        try:
            fork_server.stand_for_daemon(_import_what_tasks_need, _run_daemon)
            return
        except ConnectionError as error:
            sys.stderr.write(f"a Python daemon imports by itself: {error}\n")
    _prepare_aside()
    _run_daemon()


if __name__ == "__main__":
    # Under its own name, so that tasks which import this module find the same one.
    importlib.import_module("beam_spark_executor.spark.python_daemon").main()
