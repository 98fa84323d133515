"""Tests of scripts with the option `--runner=beam_spark_executor.BeamSparkRunner`."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

if sys.platform != "linux":
    pytest.skip("looks for what is left in /proc", allow_module_level=True)

RUNNER = ("--runner=beam_spark_executor.BeamSparkRunner", "--spark_master_url=local[1]")
SCRIPT = """
import json
import os
import sys
from typing import NamedTuple

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from words import lengths

class Point(NamedTuple):
    x: int

class Plain:
    def __init__(self, x):
        self.x = x

def run(name):
    elements = [Point(1), Plain(2)]
    with beam.Pipeline(options=PipelineOptions(sys.argv[1:])) as pipeline:
        (pipeline
           | beam.Create(elements)
           | beam.Map(lambda element: lengths.longer(element.x))
           | beam.io.WriteToText(name, num_shards=1, shard_name_template=""))
    return pipeline.result

if __name__ == "__main__":
    first, second = run("first"), run("second")
    print(json.dumps([first.job_id, second.job_id, first.endpoint, second.endpoint, second.state]))
"""
STREAM = """
import sys
import time
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse

def tell(element):
    open("running", "w").close()
    time.sleep(600)

pipeline = beam.Pipeline(options=PipelineOptions([*sys.argv[1:], "--streaming"]))
_ = pipeline | PeriodicImpulse(fire_interval=1) | beam.Map(tell)
pipeline.run().wait_until_finish()
"""


@pytest.mark.timeout(400)
def test_script_that_imports_a_package_of_its_folder_runs(program: Any) -> None:
    program.write("main.py", SCRIPT)
    program.write("words/__init__.py", "")
    program.write("words/lengths.py", "def longer(x):\n    return x + 10\n")
    code, told = program.run("main.py", *RUNNER)
    assert code == 0, told
    for name in ("first", "second"):
        assert sorted((program.folder / name).read_text().split()) == ["11", "12"]
    first, second, endpoint, other, state = json.loads(told.splitlines()[-1])
    assert first.startswith("main-20")
    assert first != second
    assert endpoint == other  # the server stays for the next pipeline
    assert state == "DONE"


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_killed_program_leaves_no_process_or_folder(program: Any) -> None:
    program.write("main.py", STREAM)
    process = program.start("main.py", *RUNNER)
    deadline = time.monotonic() + 200
    while not Path(program.folder, "running").exists():
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert any("SparkSubmit" in command for command in program.processes().values())
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.timeout(200)
def test_script_with_wrong_options_is_refused_with_one_sentence(program: Any) -> None:
    program.write("main.py", SCRIPT.replace("from words import lengths", ""))
    code, told = program.run("main.py", RUNNER[0], "--spark_master_url=sparky")
    assert code == 1
    assert "'sparky' is not a Spark master URL" in told.splitlines()[-1]
