from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
import zipimport
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from processes import process_exists
from pyspark import cloudpickle
from waiting import wait_until

from beam_spark_executor.spark import python_daemon
from beam_spark_executor.spark.pool import WorkerPools, WorkerSlot
from beam_spark_executor.spark.session import RunningSpark
from beam_spark_executor.spark.shutdown import SPARK_LIMITS

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers can't import this module


def test_python_daemon_drops_and_recreates_zip_importers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "archive.zip"
    with zipfile.ZipFile(archive, "w") as writer:
        writer.writestr("first_in_archive.py", "")
        writer.writestr("second_in_archive.py", "")
    monkeypatch.syspath_prepend(archive)
    __import__("first_in_archive")
    assert isinstance(sys.path_importer_cache[str(archive)], zipimport.zipimporter)
    python_daemon._forget_zip_importers()
    assert str(archive) not in sys.path_importer_cache
    __import__("second_in_archive")


def task(folder: Path, *, ends: str = "") -> Any:
    """Returns a task that registers two hooks, which write to ``folder`` when the worker process exits."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from beam_spark_executor.spark import python_daemon

        def hook(name: str) -> None:
            with Path(folder, str(os.getpid())).open("a") as file:
                file.write(f"{name} {threading.current_thread() is threading.main_thread()}\n")

        def breaks() -> None:
            raise RuntimeError("a hook that breaks does not stop the others")

        python_daemon.register_exit_hook(lambda: hook("registered first"))
        python_daemon.register_exit_hook(breaks)
        python_daemon.register_exit_hook(lambda: hook("registered last"))
        if ends == "hangs":
            python_daemon.register_exit_hook(lambda: time.sleep(600))
        for _ in batches:
            pass
        pids = pa.array([os.getpid()], pa.int32())
        yield pa.RecordBatch.from_arrays([pids], names=["pid"])
        if ends == "fails":
            raise ValueError("this task fails")
        if ends:
            threading.Timer(0.2, python_daemon.exit_worker).start()

    return run


HOOKS_RAN = "registered last True\nregistered first True\n"


def wait_for(path: Path, content: str) -> None:
    wait_until(lambda: path.exists() and path.read_text() == content, 60, f"hooks write {path}")


def run(spark: RunningSpark, pools: WorkerPools, slot: WorkerSlot, function: Any) -> int:
    rows = spark.session.range(0, 1, 1, 1)
    return pools.map_in_arrow(rows, function, "pid INT", slot).toArrow()["pid"][0].as_py()


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_python_worker_exit_hooks_run_in_main_thread(
    spark: RunningSpark, pools: WorkerPools, slot: WorkerSlot, tmp_path: Path
) -> None:
    pid = run(spark, pools, slot, task(tmp_path, ends="exits"))
    wait_for(tmp_path / str(pid), HOOKS_RAN)
    assert pid != run(spark, pools, slot, task(tmp_path))


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_python_worker_exit_hooks_run_after_failed_task(
    spark: RunningSpark, pools: WorkerPools, slot: WorkerSlot, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match="this task fails"):
        run(spark, pools, slot, task(tmp_path, ends="fails"))
    wait_until(lambda: len(list(tmp_path.iterdir())) >= 4, 60, "the attempts of local[2,4]")
    for file in tmp_path.iterdir():
        wait_for(file, HOOKS_RAN)


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_python_worker_with_hanging_exit_hook_is_killed(
    spark: RunningSpark, pools: WorkerPools, slot: WorkerSlot, tmp_path: Path
) -> None:
    pid = run(spark, pools, slot, task(tmp_path, ends="hangs"))
    wait_until(lambda: not process_exists(pid), SPARK_LIMITS.worker_exit_seconds + 60)


def test_python_worker_exit_hooks_are_not_interrupted_by_hangup_signals(tmp_path: Path) -> None:
    code = """
import os, signal, sys, time
from pathlib import Path
from beam_spark_executor.spark import python_daemon

def hook():
    for _ in range(3):
        os.kill(os.getpid(), signal.SIGHUP)
        time.sleep(0.05)
    Path(sys.argv[1]).write_text("ran to its end")

python_daemon.register_exit_hook(hook)
os.kill(os.getpid(), signal.SIGHUP)
time.sleep(10)
"""
    mark = tmp_path / "mark"
    done = subprocess.run([sys.executable, "-c", code, str(mark)], timeout=60)
    assert done.returncode == 0
    assert mark.read_text() == "ran to its end"


def test_python_worker_does_not_log_socket_closed_by_spark() -> None:
    code = """
import os
from beam_spark_executor.spark import python_daemon

reading, writing = os.pipe()
os.close(reading)
outfile = os.fdopen(writing, "wb")
outfile.write(b"what is left")
try:
    outfile.flush()
except BrokenPipeError:
    python_daemon._discard_output(outfile)
outfile.flush()
"""
    done = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_python_daemon_imports_required_modules_before_tasks(
    spark: RunningSpark, pools: WorkerPools, slot: WorkerSlot
) -> None:
    def modules(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        imported = sorted(set(python_daemon._WARM_MODULES) & set(sys.modules))
        for _ in batches:
            pass
        yield pa.RecordBatch.from_arrays([pa.array(imported)], names=["name"])

    rows = spark.session.range(0, 1, 1, 1)
    found = pools.map_in_arrow(rows, modules, "name STRING", slot).toArrow()["name"].to_pylist()
    assert found == sorted(python_daemon._WARM_MODULES)


@pytest.mark.spark
@pytest.mark.timeout(120)
@pytest.mark.skipif(not Path("/proc/self/oom_score_adj").exists(), reason="no such system")
def test_python_workers_are_killed_before_server_if_memory_runs_out(
    spark: RunningSpark, pools: WorkerPools, slot: WorkerSlot
) -> None:
    def score(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        own = int(Path("/proc/self/oom_score_adj").read_text())
        yield pa.RecordBatch.from_arrays([pa.array([own], pa.int32())], names=["pid"])

    servers = int(Path("/proc/self/oom_score_adj").read_text())
    assert run(spark, pools, slot, score) > servers


def daemon_of_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Returns the process ID of the daemon."""
    for _ in batches:
        pass
    yield pa.RecordBatch.from_arrays([pa.array([os.getppid()], pa.int32())], ["pid"])


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_python_daemon_that_exited_is_started_again(
    spark: RunningSpark, pools: WorkerPools, slot: WorkerSlot
) -> None:
    daemon = run(spark, pools, slot, daemon_of_worker)
    os.kill(daemon, signal.SIGTERM)
    wait_until(lambda: not process_exists(daemon))
    assert run(spark, pools, slot, daemon_of_worker) != daemon


def test_python_daemon_without_workers_exits_after_idle_time() -> None:
    code = """
import os, signal, time
from beam_spark_executor.spark import python_daemon
from beam_spark_executor.spark.shutdown import SPARK_LIMITS

SPARK_LIMITS.daemon_idle_seconds = 0.1
recorder = python_daemon._record_exits()
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as in daemons
if os.fork() == 0:
    time.sleep(3)  # longer than the daemon looks every, and than it stays alone
    print("the worker ends", flush=True)
    os._exit(0)
python_daemon._exit_when_idle(recorder)
time.sleep(60)
"""
    done = subprocess.run([sys.executable, "-c", code], timeout=60, capture_output=True, text=True)
    told = (done.returncode, done.stdout, done.stderr)
    assert told == (-signal.SIGTERM, "the worker ends\n", "")


def test_python_daemon_stays_until_spark_released_exited_workers() -> None:
    spark_forgets_after, spark_looks_every = 60, 10
    assert spark_forgets_after + spark_looks_every < SPARK_LIMITS.daemon_idle_seconds
