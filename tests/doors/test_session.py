"""`BeamSparkRunner` in programs that have a SparkSession of their own: notebooks, and scripts that made one."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

if sys.platform != "linux":
    pytest.skip("looks for what is left in /proc", allow_module_level=True)

SCRIPT = """
import json
import os
import signal
import sys

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from words import lengths

def run(name):
    with beam.Pipeline(options=PipelineOptions(sys.argv[1:])) as pipeline:
        (pipeline
           | beam.Create([1, 2])
           | beam.Map(lambda element: lengths.longer(element))
           | beam.Reshuffle()
           | beam.io.WriteToText(name, num_shards=1, shard_name_template=""))
    return pipeline.result

if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable  # as in an environment that is active
    warm = "beam_spark_executor.spark.python_daemon"
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    mine = builder.config("spark.python.daemon.module", warm).getOrCreate()
    handled = signal.getsignal(signal.SIGTERM)
    first, second = run("first"), run("second")
    variables = udf(lambda x: ",".join(sorted(n for n in os.environ if n.startswith("BEAM_SPARK"))))
    [row] = mine.range(1).select(variables("id")).collect()
    print(json.dumps({
        "endpoints": [first._endpoint, second._endpoint],
        "states": [first.state, second.state],
        "seen": row[0],
        "handled": signal.getsignal(signal.SIGTERM) == handled,
        "environment": dict(mine.sparkContext.environment),
    }))
"""
REFUSED = """
import sys
import apache_beam as beam
from beam_spark_executor import BeamSparkRunner
from pyspark.sql import SparkSession

name, value = sys.argv[1:]
SparkSession.builder.master("local[1]").config(name, value).getOrCreate()
with beam.Pipeline(BeamSparkRunner()) as pipeline:
    _ = pipeline | beam.Create([1])
"""
RUNNER = "--runner=beam_spark_executor.BeamSparkRunner"


@pytest.mark.timeout(600)
def test_the_session_that_is_there_is_used_and_left(program: Any) -> None:
    program.write("main.py", SCRIPT)
    program.write("words/__init__.py", "")
    program.write("words/lengths.py", "def longer(x):\n    return x + 10\n")
    code, told = program.run("main.py", RUNNER)
    assert code == 0, told
    for name in ("first", "second"):
        assert sorted((program.folder / name).read_text().split()) == ["11", "12"]
    found = json.loads(told.splitlines()[-1])
    assert found["endpoints"][0] == found["endpoints"][1]
    assert found["states"] == ["DONE", "DONE"]
    assert found["seen"] == ""  # what the program itself has Spark run is in no worker of ours
    assert found["handled"]
    assert "PYTHONPATH" not in found["environment"]
    assert told.count("give it spark.scheduler.mode=FAIR") == 1


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_spark_that_is_named_is_another_one(program: Any) -> None:
    program.write("main.py", SCRIPT)
    program.write("words/__init__.py", "")
    program.write("words/lengths.py", "def longer(x):\n    return x + 10\n")
    code, told = program.run("main.py", RUNNER, "--spark_master_url=local[1]")
    assert code == 0, told
    assert "spark.scheduler.mode=FAIR" not in told
    assert sorted((program.folder / "second").read_text().split()) == ["11", "12"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_session_that_keeps_no_workers_is_refused(program: Any) -> None:
    program.write("main.py", REFUSED)
    code, told = program.run("main.py", "spark.python.worker.reuse", "false")
    assert code == 1
    assert (
        "did not start: the SparkSession of this program has spark.python.worker.reuse=false"
        in told
    )
