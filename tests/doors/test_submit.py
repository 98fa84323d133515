"""Tests of ``spark-submit`` for a program with `BeamSparkRunner`, and for the server itself."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

if sys.platform != "linux":
    pytest.skip("looks for what is left in /proc", allow_module_level=True)

PYTHON = f"PYSPARK_PYTHON={sys.executable}"
SUBMIT = ("env", PYTHON, str(Path(sys.executable).with_name("spark-submit")))
RUNNER = "--runner=beam_spark_executor.BeamSparkRunner"
SCRIPT = """
import os
import sys

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from words import lengths

class Point:
    def __init__(self, x):
        self.x = x

if __name__ == "__main__":
    with beam.Pipeline(options=PipelineOptions(sys.argv[1:])) as pipeline:
        (pipeline
           | beam.Create([Point(1), Point(2)])
           | beam.Map(lambda point: (lengths.longer(point.x), os.environ["SPARK_MARK"]))
           | beam.Reshuffle()
           | beam.MapTuple(lambda length, mark: f"{length} {mark}")
           | beam.io.WriteToText("out", num_shards=1, shard_name_template=""))
    from pyspark.sql import SparkSession
    print("the session is of", SparkSession.builder.getOrCreate().sparkContext.master)
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_spark_submit_runs_a_script(program: Any) -> None:
    program.write("main.py", SCRIPT)
    program.write("words/__init__.py", "")
    program.write("words/lengths.py", "def longer(x):\n    return x + 10\n")
    of_spark = ("--master", "local[2]", "--conf", "spark.executorEnv.SPARK_MARK=submitted")
    code, told = program.run(*of_spark, "main.py", RUNNER, command=SUBMIT)
    assert code == 0, told
    lines = (program.folder / "out").read_text().splitlines()
    assert sorted(lines) == ["11 submitted", "12 submitted"]
    [line] = [line for line in told.splitlines() if line.startswith("the session is of")]
    assert "local[" in line
    assert "give it" not in told  # it lacks nothing


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_spark_submit_of_a_script_with_a_wrong_option_fails(program: Any) -> None:
    program.write("main.py", SCRIPT.replace("from words import lengths", ""))
    code, told = program.run("main.py", RUNNER, "--spark_master_url=sparky", command=SUBMIT)
    assert code == 1
    assert "'sparky' is not a Spark master URL" in told


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_spark_submit_runs_the_server(program: Any) -> None:
    program.write("main.py", SCRIPT.replace('os.environ["SPARK_MARK"]', '"served"'))
    program.write("words/__init__.py", "")
    program.write("words/lengths.py", "def longer(x):\n    return x + 10\n")
    command = Path(sys.executable).with_name("beam-spark-jobserver")
    script = subprocess.run([command, "--spark-submit-script"], capture_output=True, text=True)
    file = script.stdout.strip()

    code, told = program.run(file, "--job-prt=0", command=SUBMIT)
    assert code != 0
    assert "unknown flag --job-prt: did you mean --job-port?" in told

    flags = ("--job-port=0", "--port-file=port")
    of_spark = ("--master", "local[2]", "--conf", f"spark.executorEnv.PYTHONPATH={program.folder}")
    server = program.start(*of_spark, file, *flags, command=SUBMIT)
    try:
        address = program.wait_for_file("port", server)
        code, told = program.run("main.py", RUNNER, f"--job_endpoint={address}")
        assert code == 0, told
        lines = (program.folder / "out").read_text().splitlines()
        assert sorted(lines) == ["11 served", "12 served"]
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=120)
