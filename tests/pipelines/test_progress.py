"""Tests of the output of a program that submits a job: its progress, and the job's state after Ctrl-C."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from beam_runner_jobservices.client import JobClient
from beam_runner_model.jobs import JobState
from jobs import Pipelines
from waiting import wait_until

SECONDS = 120.0
PROGRAM = """\
import signal, sys, time
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from beam_spark_executor import BeamSparkRunner

# A shell can start its background processes with SIGINT ignored, and tests inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

def sleep(seconds):
    time.sleep(seconds)
    print("slept", seconds)
    return seconds

options = PipelineOptions(sys.argv[2:])
with beam.Pipeline(runner=BeamSparkRunner(), options=options) as pipeline:
    _ = pipeline | beam.Create([float(sys.argv[1])]) | "Sleep" >> beam.Map(sleep)
"""


def start(folder: Path, address: str, *arguments: str) -> subprocess.Popen[str]:
    file = folder / "sleeps.py"
    file.write_text(PROGRAM)
    command = [sys.executable, str(file), *arguments, f"--job_endpoint={address}"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_program_reports_start_and_end_of_job(embedded: Pipelines, tmp_path: Path) -> None:
    _, shown = start(tmp_path, embedded.address, "0").communicate(timeout=SECONDS)
    assert re.search(r"^job sleeps-\S+ runs on ", shown, re.MULTILINE)
    assert re.search(
        r"^job sleeps-\S+ is DONE after \S+ s: (\d+) of \1 stages", shown, re.MULTILINE
    )


def test_program_prints_lines_of_user_code_with_step(embedded: Pipelines, tmp_path: Path) -> None:
    program = start(tmp_path, embedded.address, "0.25")
    printed, shown = program.communicate(timeout=SECONDS)
    assert program.returncode == 0, shown
    assert printed == "[Sleep] slept 0.25\n"


def test_program_without_progress_prints_nothing(embedded: Pipelines, tmp_path: Path) -> None:
    program = start(tmp_path, embedded.address, "0", "--beam_spark_progress=off")
    _, shown = program.communicate(timeout=SECONDS)
    assert "job sleeps" not in shown


def test_interrupted_program_names_command_that_stops_job(
    embedded: Pipelines, tmp_path: Path
) -> None:
    program = start(tmp_path, embedded.address, "60")
    with JobClient(embedded.address) as client:

        def find_job() -> str:
            ids = (one.job_id for one in client.list_jobs() if one.state is JobState.RUNNING)
            return next((one for one in ids if one.startswith("sleeps-")), "")

        wait_until(find_job, SECONDS, "the job runs")
        job_id = find_job()
        assert program.stderr is not None
        while "runs on" not in program.stderr.readline():
            assert program.poll() is None
        time.sleep(3)  # the program begins to wait for the job after this line
        program.send_signal(signal.SIGINT)
        _, shown = program.communicate(timeout=SECONDS)
        stop = f"beam-spark-jobserver cancel {job_id} --job-endpoint {embedded.address}"
        assert f"job {job_id} goes on; to stop the job: {stop}\n" in shown
        assert client.get_state(job_id).state is JobState.RUNNING
        client.cancel_job(job_id)
