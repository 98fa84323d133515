from __future__ import annotations

import os
import sys
import threading
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from beam_spark_io.spark.reasons import find_failure_reason
from processes import process_exists
from pyspark import InheritableThread, cloudpickle
from waiting import wait_until

from beam_spark_executor.spark.pool import SLOT_VARIABLE, WorkerPools, WorkerSlot
from beam_spark_executor.spark.session import RunningSpark

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers can't import this module


@pytest.fixture
def slots() -> WorkerPools:
    context: Any = SimpleNamespace(environment={})
    return WorkerPools(context)


def test_worker_pool_uses_lowest_free_slot_first(slots: WorkerPools) -> None:
    first, second, third = slots.acquire_slot(), slots.acquire_slot(), slots.acquire_slot()
    assert [slot.number for slot in (first, second, third)] == [0, 1, 2]
    slots.release_slot(third)
    slots.release_slot(first)
    assert slots.acquire_slot() == first
    assert slots.acquire_slot() == third


def test_worker_pool_does_not_reuse_name_of_retired_slot(slots: WorkerPools) -> None:
    slot = slots.acquire_slot()
    slots.retire_slot(slot)
    successor = slots.acquire_slot()
    assert successor.number == slot.number
    assert successor.name != slot.name
    slots.retire_slot(successor)
    assert slots.acquire_slot().name not in {slot.name, successor.name}


def test_worker_pool_releases_slot_once(slots: WorkerPools) -> None:
    slot = slots.acquire_slot()
    slots.release_slot(slot)
    with pytest.raises(ValueError, match="slot-0.0"):
        slots.release_slot(slot)
    with pytest.raises(ValueError, match="slot-0.0"):
        slots.retire_slot(slot)


def test_environment_variable_of_a_slot_does_not_change_workers_of_other_slots() -> None:
    environment = {"PYTHONPATH": "/theirs", "OTHER": "x"}
    context: Any = SimpleNamespace(environment=environment)
    pools = WorkerPools(context, {"PYTHONPATH": "/ours", "MORE": "y"})
    frame: Any = SimpleNamespace(mapInArrow=lambda function, schema: dict(environment))
    seen: Any = pools.map_in_arrow(frame, iter, "id LONG", WorkerSlot(3))
    assert seen == {"PYTHONPATH": "/ours", "MORE": "y", "OTHER": "x", SLOT_VARIABLE: "slot-3.0"}
    assert environment == {"PYTHONPATH": "/theirs", "OTHER": "x"}


def facts() -> dict[str, Any]:
    return {"pid": os.getpid(), "daemon": os.getppid(), "slot": os.environ[SLOT_VARIABLE]}


def facts_then_exit(may_leave: Path) -> dict[str, Any]:
    """Exits after the task has ended, as workers do at the end of their job. A file triggers the exit."""

    def leave() -> None:
        while not may_leave.exists():
            time.sleep(0.005)
        os._exit(0)

    threading.Thread(target=leave, daemon=True).start()
    return facts()


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_slots_have_separate_python_workers_and_daemons(
    spark: RunningSpark, pools: WorkerPools
) -> None:
    one, other = pools.acquire_slot(), pools.acquire_slot()
    first = pools.run_tasks(facts, 2, one)
    second = pools.run_tasks(facts, 2, other)
    again = pools.run_tasks(facts, 2, one)
    assert {row["slot"] for row in first} == {one.name}
    assert {row["slot"] for row in second} == {other.name}
    assert {row["daemon"] for row in first}.isdisjoint(row["daemon"] for row in second)
    assert {row["pid"] for row in first}.isdisjoint(row["pid"] for row in second)
    # Spark decides whether two tasks run at once or in sequence, and so need two workers or one.
    assert not {row["pid"] for row in again}.isdisjoint(row["pid"] for row in first)
    pools.retire_slot(one)
    pools.retire_slot(other)
    assert SLOT_VARIABLE not in spark.context.environment


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_exited_python_workers_are_replaced_without_failed_task(
    spark: RunningSpark, pools: WorkerPools, slot: WorkerSlot, tmp_path: Path
) -> None:
    seen: set[int] = set()
    daemons: set[int] = set()
    context = spark.context
    context.setJobGroup("leavers", "workers that leave")
    for number in range(25):
        may_leave = tmp_path / str(number)
        rows = pools.run_tasks(partial(facts_then_exit, may_leave), 2, slot)
        may_leave.touch()
        pids = {row["pid"] for row in rows}
        assert pids.isdisjoint(seen)
        seen |= pids
        daemons |= {row["daemon"] for row in rows}
        wait_until(lambda pids=pids: not any(map(process_exists, pids)))
    assert len(daemons) == 1
    tracker = context.statusTracker()
    jobs = tracker.getJobIdsForGroup("leavers")
    assert len(jobs) >= 25
    for job in jobs:
        for stage in tracker.getJobInfo(job).stageIds:
            info = tracker.getStageInfo(stage)
            assert info is None or info.numFailedTasks == 0


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_cancelled_busy_python_worker_is_killed_within_seconds(
    spark: RunningSpark, pools: WorkerPools, slot: WorkerSlot, tmp_path: Path
) -> None:
    mark = tmp_path / "pid"

    def busy() -> None:
        mark.write_text(str(os.getpid()))
        while True:
            sum(range(1000))

    errors: list[str] = []

    def job() -> None:
        errors.append(pools.run_single_task(busy, slot, "busy"))

    thread = InheritableThread(job)
    thread.start()
    wait_until(lambda: mark.exists() and mark.read_text())
    pid = int(mark.read_text())
    spark.context.cancelJobGroup("busy")
    # The task stays busy until it is killed.
    wait_until(lambda: not process_exists(pid), 120)
    thread.join(60)
    assert "cancelled" in errors[0]


def test_spark_failure_reason_of_java_error_omits_called_method() -> None:
    failure: Any = RuntimeError("An error occurred while calling o1.collectToPython.\n: it")
    assert find_failure_reason(failure) == "An error occurred while calling o1.collectToPython."
    failure.java_exception = SimpleNamespace(toString=lambda: "SparkException: Job aborted\n\tat x")
    assert find_failure_reason(failure) == "SparkException: Job aborted"
    assert find_failure_reason(ValueError()) == "ValueError"


_OF_A_WORKER = """\
org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent \
failure: Lost task 0.3 in stage 0.0 (TID 3) (10.0.0.7 executor 1): \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    func, profiler = read_command(pickleSer, infile)
                     ^^^^^^^^^^^^^
ValueError: first

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "serializers.py", line 2, in loads
    return cloudpickle.loads(obj)
ModuleNotFoundError: No module named 'beam_spark_executor'

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:572)
\tat java.base/java.lang.Thread.run(Thread.java:840)

Driver stacktrace:"""


def test_spark_failure_reason_of_python_error_ends_with_exception() -> None:
    reason = find_failure_reason(ValueError(_OF_A_WORKER))
    assert reason.startswith("org.apache.spark.SparkException: Job aborted")
    assert reason.endswith(
        "PythonException: ModuleNotFoundError: No module named 'beam_spark_executor'"
    )
    assert "\n" not in reason


def test_spark_failure_reason_without_exception_is_first_line() -> None:
    line = "PythonException: Traceback (most recent call last):"
    assert find_failure_reason(ValueError(f"{line}\n  File 'worker.py'")) == line
