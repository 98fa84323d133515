"""``spark-submit`` to executors in separate processes: Spark's ``local-cluster``, and its standalone
master and workers.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.find_spark_home import _find_spark_home

if sys.platform != "linux":
    pytest.skip("looks for what is left in /proc", allow_module_level=True)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
BIN = Path(sys.executable).parent
SUBMIT = ("env", f"PYSPARK_PYTHON={sys.executable}", str(BIN / "spark-submit"))
RUNNER = "--runner=beam_spark_executor.BeamSparkRunner"
SCRIPT = """
import os
import sys

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

class Point:
    def __init__(self, x):
        self.x = x

def longer(point):
    from words import lengths

    return lengths.longer(point.x), "executor" if "SPARK_EXECUTOR_DIRS" in os.environ else "driver"

if __name__ == "__main__":
    # Executors have working folders of their own.
    out = os.path.abspath("out")
    with beam.Pipeline(options=PipelineOptions(sys.argv[1:])) as pipeline:
        (pipeline
           | beam.Create([Point(x) for x in range(20)])
           | beam.Map(longer)
           | beam.Reshuffle()
           | beam.MapTuple(lambda length, where: (where, length))
           | beam.CombinePerKey(sum)
           | beam.MapTuple(lambda where, length: f"{where} {length}")
           | beam.io.WriteToText(out, num_shards=1, shard_name_template=""))
"""
DONE = ["executor 390"]


@pytest.fixture(params=["local-cluster[2,1,1024]", "standalone"])
def master(request: pytest.FixtureRequest, program: Any) -> Iterator[str]:
    """Yields the URL of a Spark with two executors."""
    if request.param != "standalone":
        yield request.param
        return
    started = []

    def start(role: str, *arguments: str) -> Path:
        log = program.folder / f"{role}-{len(started)}.log"
        java = str(Path(_find_spark_home(), "bin", "spark-class"))
        local = (f"SPARK_LOCAL_DIRS={program.folder}/local", "SPARK_DAEMON_MEMORY=192m")
        shell = f'exec env "$@" >{log} 2>&1'
        command = ("bash", "-c", shell, "start", *local, java)
        host = ("--host", "127.0.0.1", "--webui-port", "0")
        name = f"org.apache.spark.deploy.{role}.{role.capitalize()}"
        started.append(program.start(name, *host, *arguments, command=command))
        return Path(log)

    try:
        at = _told(start("master", "--port", "0"), r"Starting Spark master at (spark://\S+)")
        size = ("--cores", "1", "--memory", "1g", "--work-dir", str(program.folder / "work"))
        for log in [start("worker", *size, at) for _ in range(2)]:
            _told(log, r"Successfully registered with master (\S+)")
        yield at
    finally:
        for process in reversed(started):
            process.terminate()
            process.communicate(timeout=60)


def test_spark_submit_to_a_cluster_runs_a_script(program: Any, master: str) -> None:
    _write(program)
    of_spark = ("--master", master, "--py-files", "words.zip")
    data = f"--beam_spark_data_dir={program.folder}/data"
    code, told = program.run(*of_spark, "main.py", RUNNER, data, command=SUBMIT)
    assert code == 0, told
    assert (program.folder / "out").read_text().splitlines() == DONE


def test_spark_submit_to_a_cluster_runs_the_server(program: Any, master: str) -> None:
    _write(program)
    script = subprocess.run(
        [BIN / "beam-spark-jobserver", "--spark-submit-script"], capture_output=True, text=True
    )
    flags = ("--job-port=0", "--port-file=port", f"--data-dir={program.folder}/data")
    of_spark = ("--master", master, "--py-files", "words.zip")
    server = program.start(*of_spark, script.stdout.strip(), *flags, command=SUBMIT)
    try:
        address = program.wait_for_file("port", server)
        code, told = program.run("main.py", RUNNER, f"--job_endpoint={address}")
        assert code == 0, told
        assert (program.folder / "out").read_text().splitlines() == DONE
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=120)


def _write(program: Any) -> None:
    program.write("main.py", SCRIPT)
    with zipfile.ZipFile(program.folder / "words.zip", "w") as package:
        package.writestr("words/__init__.py", "")
        package.writestr("words/lengths.py", "def longer(x):\n    return x + 10\n")


def _told(log: Path, pattern: str) -> str:
    """Waits up to two minutes for a line in the log of a Spark daemon, and returns it."""
    deadline = time.monotonic() + 120
    while True:
        text = log.read_text() if log.exists() else ""
        found = re.search(pattern, text)
        if found:
            return found[1]
        assert time.monotonic() < deadline, text
        time.sleep(0.2)
