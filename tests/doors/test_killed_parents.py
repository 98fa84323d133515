"""Tests that no process of the runner runs ten seconds after a kill of its parent process."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_until

if sys.platform != "linux":
    pytest.skip("looks for what is left in /proc", allow_module_level=True)

SERVER = str(Path(sys.executable).with_name("beam-spark-jobserver"))
GONE_SECONDS = 10.0
# Runs a stream, whose worker signals its start, until the kill.
STREAM = """
import sys
import time
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse

def tell(element):
    open(FOLDER + "/running", "w").close()
    time.sleep(600)

FOLDER, *options = sys.argv[1:]
pipeline = beam.Pipeline(options=PipelineOptions([*options, "--streaming"]))
_ = pipeline | PeriodicImpulse(fire_interval=1) | beam.Map(tell)
pipeline.run().wait_until_finish()
"""
# Starts the server as Go's and Python's SDKs start Prism, and reads its output.
PARENT = """
import subprocess
import sys

server = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
for line in server.stdout:
    if b"serving the Beam Job API" in line or b"serves the Beam Job API" in line:
        open("running", "w").close()
"""


def _wait_until_it_runs(program: Any, process: subprocess.Popen[str]) -> None:
    def runs() -> bool:
        assert process.poll() is None, process.stdout.read() if process.stdout else ""
        return Path(program.folder, "running").exists()

    wait_until(runs, 300, "it runs")


def _kill(program: Any, process: subprocess.Popen[str]) -> None:
    assert len(program.processes()) > 1, "there is something beside the parent"
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: not program.processes(), GONE_SECONDS, lambda: str(program.processes()))


@pytest.mark.slow
@pytest.mark.timeout(500)
@pytest.mark.parametrize(
    "options",
    [
        ("--runner=beam_spark_executor.BeamSparkRunner", "--spark_master_url=local[1]"),
        ("--runner=PrismRunner", f"--prism_location={SERVER}"),
        (
            "--runner=PrismRunner",
            f"--prism_location={SERVER}",
            "--environment_type=beam:env:embedded_python:v1",
        ),
    ],
    ids=["BeamSparkRunner", "PrismRunner", "PrismRunner-embedded"],
)
def test_runner_processes_exit_if_the_submitting_program_is_killed(
    program: Any, options: tuple[str, ...]
) -> None:
    program.write("main.py", STREAM)
    process = program.start("main.py", str(program.folder), *options)
    _wait_until_it_runs(program, process)
    _kill(program, process)


@pytest.mark.slow
@pytest.mark.timeout(500)
@pytest.mark.parametrize(
    "flags",
    [("-job_port=0", "-serve_http=false"), ("--job-port=0", "--log-kind=json")],
    ids=["as Java's", "as a script's"],
)
def test_server_exits_if_the_program_that_started_it_is_killed(
    program: Any, flags: tuple[str, ...]
) -> None:
    program.write("main.py", PARENT)
    process = program.start("main.py", SERVER, *flags)
    _wait_until_it_runs(program, process)
    _kill(program, process)
