"""Tests that Airflow's operator runs a program with this runner by name."""

from __future__ import annotations

import sys
from typing import Any

import pytest

pytest.importorskip(
    "airflow.providers.apache.beam", reason="wants Airflow and its provider for Beam"
)

WORDS = """
import argparse

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

def told(word, count):
    return f"{word} {count}"

parser = argparse.ArgumentParser()
parser.add_argument("--output")
mine, others = parser.parse_known_args()
with beam.Pipeline(options=PipelineOptions(others)) as pipeline:
    counts = pipeline | beam.Create(["a", "b", "a"]) | beam.combiners.Count.PerElement()
    counts | beam.MapTuple(told) | beam.io.WriteToText(mine.output)
"""
TASK = """
import sys

from airflow.providers.apache.beam.operators.beam import BeamRunPythonPipelineOperator

BeamRunPythonPipelineOperator(
    task_id="words",
    py_file="words.py",
    py_interpreter=sys.executable,
    py_options=[],
    runner=sys.argv[1],
    pipeline_options={"output": "out", "spark_master_url": "local[1]"},
).execute({})
"""


@pytest.mark.slow
@pytest.mark.timeout(500)
@pytest.mark.parametrize(
    ("runner", "ends"),
    [("beam_spark_executor.BeamSparkRunner", 0), ("beam_spark_executor.BeamSparkRuner", 1)],
)
def test_airflow_operator_runs_a_pipeline(
    program: Any, monkeypatch: pytest.MonkeyPatch, runner: str, ends: int
) -> None:
    program.write("words.py", WORDS)
    program.write("task.py", TASK)
    monkeypatch.setenv("AIRFLOW_HOME", str(program.folder / "airflow"))
    code, told = program.run("task.py", runner)
    assert code == ends, told
    written = [path.read_text().splitlines() for path in program.folder.glob("out*")]
    lines = sorted(line for lines in written for line in lines)
    if ends == 0:
        assert lines == ["a 2", "b 1"]
    else:
        assert not lines and "BeamSparkRuner" in told
    assert sys.executable in told
