"""Tests of jobs on YARN with the driver on the client's machine, and with the driver in a container."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from free_ports import find_free_ports
from pyspark.find_spark_home import _find_spark_home
from waiting import wait_until
from yarn_servers import QUEUE, YarnServers

pytestmark = pytest.mark.timeout(1_500)
SECONDS = 600.0
RUNNER = "--runner=beam_spark_executor.BeamSparkRunner"
PROGRAM = """
import os
import sys

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions


def place(word):
    # The interpreter of the archive is in the folder of a container.
    packed = "/container_" in sys.executable and "/environment/" in sys.executable
    return word, "container" if packed and "CONTAINER_ID" in os.environ else sys.executable


if __name__ == "__main__":
    output, *options = sys.argv[1:]
    with beam.Pipeline(options=PipelineOptions(options)) as pipeline:
        (
            pipeline
            | beam.Create(["to be or not to be"])
            | beam.FlatMap(str.split)
            | beam.Map(place)
            | beam.combiners.Count.PerElement()
            | beam.MapTuple(lambda found, count: f"{found[0]} {count} {found[1]}")
            | beam.io.WriteToText(output, num_shards=1, shard_name_template="")
        )
"""
COUNTS = ["be 2 container", "not 1 container", "or 1 container", "to 2 container"]
STREAM = """
import sys
import time

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicSequence
from apache_beam.transforms.window import FixedWindows


def show_progress(element, file):
    with open(file, "a") as progress:
        progress.write("x")
    return element


if __name__ == "__main__":
    output, *options = sys.argv[1:]
    begin = int(time.time())
    with beam.Pipeline(options=PipelineOptions(options)) as pipeline:
        (
            pipeline
            | beam.Create([(begin, begin + SECONDS, 0.5)])
            | PeriodicSequence()
            | beam.Map(show_progress, output + ".progress")
            | beam.WindowInto(FixedWindows(3600 * 24 * 365 * 100))
            | beam.CombineGlobally(beam.combiners.CountCombineFn()).without_defaults()
            | beam.io.WriteToText(output, num_shards=1, shard_name_template="")
        )
"""


def make_properties(archive: Path) -> dict[str, str]:
    """Returns the properties of docs/how-to/deployment.md, with little memory."""
    return {
        "spark.yarn.queue": QUEUE,
        "spark.archives": f"{archive}#environment",
        "spark.pyspark.python": "./environment/bin/python",
        # The containers are on this machine. Without this property, each submission uploads the jars.
        "spark.yarn.jars": f"local:{_find_spark_home()}/jars/*",
        "spark.executor.instances": "2",
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.yarn.am.memory": "256m",
    }


def make_environment(yarn: YarnServers, folder: Path) -> dict[str, str]:
    """Returns the environment of a client whose only knowledge of YARN is the settings' folder."""
    bin_folder = Path(sys.executable).parent
    path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
    environment = {"HADOOP_CONF_DIR": str(yarn.conf), "PATH": path, "HOME": str(folder)}
    return {**os.environ, **environment}


def make_submission(mode: str, archive: Path, more: dict[str, str]) -> list[str]:
    """Returns the start of a command of ``spark-submit``."""
    properties = make_properties(archive) | more
    settings = [word for item in properties.items() for word in ("--conf", "=".join(item))]
    return ["spark-submit", "--master", "yarn", "--deploy-mode", mode, *settings]


IN_THE_CONTAINER = {"spark.yarn.appMasterEnv.PYSPARK_PYTHON": "./environment/bin/python"}


def run(yarn: YarnServers, folder: Path, *command: str) -> str:
    """Runs a command of a client, which must succeed, and returns its output."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=make_environment(yarn, folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + yarn.show_logs()
    return done.stdout


def test_yarn_runs_a_program_whose_driver_is_on_the_client_machine(
    yarn: YarnServers, archive: Path, tmp_path: Path
) -> None:
    (tmp_path / "words.py").write_text(PROGRAM)
    properties = make_properties(archive).items()
    flags = [f"--beam_spark_conf={name}={value}" for name, value in properties]
    output = tmp_path / "out"
    data = f"--beam_spark_data_dir={tmp_path}/data"
    program = (sys.executable, "words.py", str(output), RUNNER, "--spark_master_url=yarn", data)
    run(yarn, tmp_path, *program, *flags)
    assert sorted(output.read_text().splitlines()) == COUNTS
    newest = yarn.list_applications()[0]
    assert (newest["queue"].rpartition(".")[2], newest["finalStatus"]) == (QUEUE, "SUCCEEDED")


def test_yarn_runs_a_program_whose_driver_is_in_a_container(
    yarn: YarnServers, archive: Path, tmp_path: Path
) -> None:
    (tmp_path / "words.py").write_text(PROGRAM)
    output = tmp_path / "out"
    submission = make_submission("cluster", archive, IN_THE_CONTAINER)
    data = f"--beam_spark_data_dir={tmp_path}/data"
    run(yarn, tmp_path, *submission, "words.py", str(output), RUNNER, data)
    assert sorted(output.read_text().splitlines()) == COUNTS
    assert yarn.list_applications()[0]["finalStatus"] == "SUCCEEDED"


def test_yarn_restarts_a_killed_server_that_continues_its_stream(
    yarn: YarnServers, archive: Path, tmp_path: Path
) -> None:
    """YARN starts the server again, and the stream continues from its last commit."""
    (tmp_path / "stream.py").write_text(STREAM.replace("SECONDS", "60"))
    (port,) = find_free_ports(1)
    script = run(yarn, tmp_path, "beam-spark-jobserver", "--spark-submit-script").strip()
    flags = (f"--job-port={port}", f"--state-dir={tmp_path}/state", f"--data-dir={tmp_path}/data")
    more = {**IN_THE_CONTAINER, "spark.yarn.submit.waitAppCompletion": "false"}
    before = {one["id"] for one in yarn.list_applications()}
    run(yarn, tmp_path, *make_submission("cluster", archive, more), script, *flags)
    (application,) = (one["id"] for one in yarn.list_applications() if one["id"] not in before)
    output = tmp_path / "out"
    progress = tmp_path / "out.progress"
    command = (sys.executable, "stream.py", str(output), RUNNER, "--streaming")
    endpoint = (f"--job_endpoint=localhost:{port}", f"--job_server_timeout={SECONDS:.0f}")
    client: subprocess.Popen[Any] = subprocess.Popen(
        [*command, *endpoint], cwd=tmp_path, env=make_environment(yarn, tmp_path)
    )
    try:
        wait_until(progress.exists, SECONDS, yarn.show_logs)
        os.kill(yarn.find_driver(application, 1), signal.SIGKILL)
        assert client.wait(SECONDS) == 0, yarn.show_logs()
        assert output.read_text().split() == ["120"]
        assert yarn.find_driver(application, 2)
    finally:
        client.kill()
        client.wait()
        yarn.kill_application(application)
