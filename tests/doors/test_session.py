"""Tests of `BeamSparkRunner` in programs with an existing SparkSession, such as notebooks."""

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
        "endpoints": [first.endpoint, second.endpoint],
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
def test_existing_spark_session_is_used_and_not_stopped(program: Any) -> None:
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
    assert found["seen"] == ""  # the program's own Spark tasks run in no worker of the runner
    assert found["handled"]
    assert "PYTHONPATH" not in found["environment"]
    assert told.count("spark.scheduler.mode=FAIR") == 1


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_runner_with_a_named_spark_master_starts_a_separate_session(program: Any) -> None:
    program.write("main.py", SCRIPT)
    program.write("words/__init__.py", "")
    program.write("words/lengths.py", "def longer(x):\n    return x + 10\n")
    code, told = program.run("main.py", RUNNER, "--spark_master_url=local[1]")
    assert code == 0, told
    assert "spark.scheduler.mode=FAIR" not in told
    assert sorted((program.folder / "second").read_text().split()) == ["11", "12"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_spark_session_without_worker_reuse_is_refused(program: Any) -> None:
    program.write("main.py", REFUSED)
    code, told = program.run("main.py", "spark.python.worker.reuse", "false")
    assert code == 1
    assert (
        "did not start: the SparkSession of this program has spark.python.worker.reuse=false"
        in told
    )


FRAMES = """
import json
import os
import sys

import apache_beam as beam
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from beam_spark_executor import BeamSparkRunner
from beam_spark_io import from_dataframe, to_dataframe
from pyspark.sql import SparkSession

def refused(wrong):
    try:
        return wrong()
    except (ValueError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"

def endless():
    ticks = beam.Pipeline(runner=BeamSparkRunner()) | PeriodicImpulse() | beam.Map(lambda at: beam.Row(n=1))
    return to_dataframe(ticks)

def elsewhere():
    with beam.Pipeline("FnApiRunner") as pipeline:
        _ = pipeline | from_dataframe(mine.range(3))

if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    mine = builder.config("spark.python.daemon.module", "beam_spark_executor.spark.python_daemon").getOrCreate()
    # As where a notebook's cell has a session of its own: views of one are not known to the other.
    other = mine.newSession()
    frame = other.sql("SELECT id AS n, CAST(id AS STRING) AS word, CAST(IF(id = 2, NULL, id * 1.5) AS DOUBLE) AS half FROM range(4)")
    pipeline = beam.Pipeline(runner=BeamSparkRunner())
    rows = (pipeline
        | from_dataframe(frame.where("n > 0"))
        | beam.Map(lambda row: beam.Row(n=row.n + 10, word=row.word * 2, half=row.half)).with_output_types(
            beam.typehints.row_type.RowTypeConstraint.from_fields(
                [("n", int), ("word", str), ("half", float | None)])))
    first = to_dataframe(rows)
    again = to_dataframe(rows | beam.Map(lambda row: beam.Row(n=-row.n)).with_output_types(
        beam.typehints.row_type.RowTypeConstraint.from_fields([("n", int)])))
    print(json.dumps([
        [list(row) for row in first.orderBy("n").collect()],
        sorted(row.n for row in again.collect()),
        first.count(),
        [refused(wrong) for wrong in (
            lambda: from_dataframe(mine.readStream.format("rate").load()),
            lambda: from_dataframe(mine.range(3).crossJoin(mine.range(2))),
            lambda: from_dataframe([1, 2]),
            lambda: to_dataframe(pipeline),
            lambda: to_dataframe(rows | "No columns" >> beam.Map(lambda row: {"n": row.n})),
            endless,
            elsewhere,
        )],
    ]))
"""
REFUSALS = (
    "InvalidTableSpec: from_dataframe needs a bounded DataFrame",
    "InvalidTableSpec: the DataFrame has two columns 'id'",
    "InvalidTableSpec: from_dataframe needs a Spark DataFrame, but got a list",
    "InvalidTableSpec: to_dataframe needs a PCollection, but got a Pipeline",
    "can't derive the columns",
    "can't write an unbounded PCollection",
    "run the pipeline with beam_spark_executor.BeamSparkRunner",
)
ELSEWHERE = """
import sys
import apache_beam as beam
from beam_spark_executor import BeamSparkRunner
from beam_spark_io import from_dataframe
from apache_beam.options.pipeline_options import PipelineOptions
from pyspark.sql import SparkSession

if __name__ == "__main__":
    mine = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    with beam.Pipeline(BeamSparkRunner(), PipelineOptions(["--spark_master_url=local[1]"])) as pipeline:
        _ = pipeline | from_dataframe(mine.range(3))
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_dataframe_round_trips_through_a_pcollection(program: Any) -> None:
    program.write("main.py", FRAMES)
    code, told = program.run("main.py")
    assert code == 0, told
    rows, negative, count, refused = json.loads(told.splitlines()[-1])
    assert rows == [[11, "11", 1.5], [12, "22", None], [13, "33", 4.5]]
    assert (negative, count) == ([-13, -12, -11], 3)
    assert [part in sentence for part, sentence in zip(REFUSALS, refused, strict=True)] == [
        True
    ] * 7, refused


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_dataframe_of_another_session_is_refused(program: Any) -> None:
    program.write("main.py", ELSEWHERE)
    code, told = program.run("main.py")
    assert code == 1
    assert "the DataFrame belongs to another Spark than the server's" in told
