"""Prism's client of Beam starts this server in place of Prism."""

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
