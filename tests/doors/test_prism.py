"""Prism's client in Beam with this server instead of Prism, and a sink that Prism refuses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

if sys.platform != "linux":
    pytest.skip("looks for what is left in /proc", allow_module_level=True)

SCRIPT = """
import logging
import sys
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s", force=True)
with beam.Pipeline(options=PipelineOptions(sys.argv[1:])) as pipeline:
    _ = (pipeline | beam.Create([1, 2, 3]) | beam.Map(lambda x: x * 2)
         | beam.io.WriteToText("out", num_shards=1, shard_name_template=""))
"""


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_prism_client_of_beam_runs_on_the_server(program: Any) -> None:
    program.write("main.py", SCRIPT)
    server = Path(sys.executable).with_name("beam-spark-jobserver")
    code, told = program.run("main.py", "--runner=PrismRunner", f"--prism_location={server}")
    assert code == 0, told
    assert sorted((program.folder / "out").read_text().split()) == ["2", "4", "6"]
    assert "INFO PrismRunner: serving the Beam Job API at" in told
    assert '"msg"' not in told


SINK = """
import sys
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from beam_spark_io import WriteFilesExactlyOnce

with beam.Pipeline(options=PipelineOptions(sys.argv[1:])) as pipeline:
    _ = pipeline | beam.Create([{"id": 1}]) | WriteFilesExactlyOnce("sales", "jsonl")
"""


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_prism_refuses_a_sink_that_requires_stable_input(
    program: Any, request: pytest.FixtureRequest
) -> None:
    binary = request.config.getoption("--prism")
    if not binary:
        pytest.skip("NOT RUN: --prism names no binary of Prism")
    program.write("main.py", SINK)
    code, output = program.run("main.py", "--runner=PrismRunner", f"--prism_location={binary}")
    assert code != 0
    assert "beam:requirement:pardo:stable_input:v1" in output
    assert not (program.folder / "sales").exists()
