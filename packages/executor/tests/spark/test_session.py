from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from beam_spark_executor.spark.session import RunningSpark, find_worker_python
from beam_spark_executor.spark.settings import SparkSettings

SCENARIO = """
import json, logging, os, sys, threading, time
from pathlib import Path
from beam_spark_executor.spark.java import list_session_processes
from beam_spark_executor.spark.pool import WorkerPools
from beam_spark_executor.spark.session import start_spark
from beam_spark_executor.spark.settings import SparkSettings

def task(batches):
    import os, sys
    import pyarrow as pa
    from beam_spark_executor.spark.python_daemon import register_exit_hook
    register_exit_hook(lambda: Path(folder, "hook").write_text("ran"))
    for _ in batches:
        pass
    main = sys.modules["__main__"].__spec__.name
    yield pa.RecordBatch.from_arrays([pa.array([main])], names=["main"])

if __name__ == "__main__":
    folder, conf = sys.argv[1], json.loads(sys.argv[2])
    logging.basicConfig(level="WARNING")
    spark = start_spark(SparkSettings(conf={"spark.master": "local[1,4]", **conf}))
    pools = WorkerPools(spark.context)
    slot = pools.acquire_slot()
    for _ in range(2):
        rows = spark.session.range(0, 1, 1, 1)
        table = pools.map_in_arrow(rows, task, "main STRING", slot).toArrow()
    java = spark._java.process.pid
    before = list_session_processes(java)
    stoppers = [threading.Thread(target=spark.stop) for _ in range(2)]
    for stopper in stoppers:
        stopper.start()
    for stopper in stoppers:
        stopper.join()
    spark.stop()
    print(json.dumps({
        "main": table["main"][0].as_py(),
        "before": len(before),
        "after": list_session_processes(java),
        "alive": spark.is_alive,
    }))
"""


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Returns a folder with a path short enough for Unix sockets, unlike ``tmp_path``."""
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        yield Path(folder)


@pytest.mark.spark
@pytest.mark.timeout(400)
@pytest.mark.parametrize("daemon", ["beam_spark_executor.spark.python_daemon", "pyspark.daemon"])
def test_spark_session_stop_leaves_no_process_and_workers_exit_in_order(
    tmp_path: Path, short_folder: Path, daemon: str
) -> None:
    script = tmp_path / "scenario.py"
    script.write_text(SCENARIO)
    conf = {"spark.python.daemon.module": daemon}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), json.dumps(conf)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "TMPDIR": str(short_folder)},
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert told["before"] >= 3  # Java, a daemon, a worker
    assert told["after"] == []
    assert not told["alive"]
    assert (tmp_path / "hook").read_text() == "ran"
    assert list(short_folder.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hook", "scenario.py"]
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1


BEGUN = """
import os, signal, threading
from beam_spark_executor.spark.session import RunningSpark
from beam_spark_executor.spark.settings import SparkSettings

for end in (RunningSpark.kill, RunningSpark.stop):
    begun = RunningSpark(SparkSettings("local[1]"))
    begun.begin_startup()
    end(begun)
    assert begun._java.process.wait(60) < 0
wrong = RunningSpark(SparkSettings("local[one]"))
wrong.begin_startup()
assert wrong.pipes == ()
spark = RunningSpark(SparkSettings("local[1]"))
spark.begin_startup()
assert threading.active_count() == 1
java = spark._java.process.pid
spark.start()
assert spark._java.process.pid == java
assert spark.context.parallelize(range(3)).count() == 3
os.kill(java, signal.SIGSTOP)
assert spark.is_alive
spark.stop(1.0)
assert not spark.is_alive
"""


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_java_process_of_spark_is_started_once_and_can_be_killed_while_suspended(
    short_folder: Path,
) -> None:
    environment = {**os.environ, "TMPDIR": str(short_folder)}
    subprocess.run([sys.executable, "-c", BEGUN], timeout=300, env=environment, check=True)
    assert list(short_folder.iterdir()) == []


@pytest.mark.spark
@pytest.mark.timeout(400)
def test_spark_kill_by_signal_handler_during_another_kill_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Killing Java also removes PySpark's gateway, which other tests still need.
    monkeypatch.setattr(SparkContext, "_gateway", SparkContext._gateway)
    monkeypatch.setattr(SparkContext, "_jvm", SparkContext._jvm)
    session = RunningSpark(SparkSettings())
    kills = 0

    class Java:
        def kill(self) -> None:
            nonlocal kills
            kills += 1
            if kills == 1:
                session.kill()  # as a signal handler does during the first kill

    session._java = Java()  # type: ignore[assignment]
    killing = threading.Thread(target=session.kill, daemon=True)
    killing.start()
    killing.join(10)
    assert not killing.is_alive()
    assert kills == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            "master='k8s://https://127.0.0.1:1'",
            "No Kubernetes API responds at k8s://https://127.0.0.1:1",
        ),
        (
            "master='local', conf={'spark.scheduler.mode': 'X'}",
            "Can't start Spark with master local",
        ),
    ],
)
def test_spark_session_start_failure_is_reported_in_one_sentence(
    settings: str, message: str, short_folder: Path
) -> None:
    code = (
        "from beam_spark_executor.spark.session import start_spark\n"
        "from beam_spark_executor.spark.settings import SparkSettings, SparkUnavailable\n"
        "try:\n"
        f"    start_spark(SparkSettings({settings}))\n"
        "except SparkUnavailable as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "TMPDIR": str(short_folder)},
    )
    assert done.stdout.startswith(message), done.stderr
    assert len(done.stdout.splitlines()) == 1
    assert list(short_folder.iterdir()) == []


@pytest.mark.parametrize(
    ("conf", "variable", "python"),
    [
        ({}, None, sys.executable),
        ({}, "/usr/bin/python3", "/usr/bin/python3"),
        ({"spark.pyspark.python": "./environment/bin/python"}, None, "./environment/bin/python"),
        ({"spark.pyspark.python": "./first"}, "/second", "./first"),
    ],
)
def test_spark_workers_run_python_selected_by_user(
    conf: dict[str, str], variable: str | None, python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if variable is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", variable)
    assert find_worker_python(conf) == python
