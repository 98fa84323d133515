"""Tests of a notebook kernel that runs cells twice, the second time with an edited function."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

if sys.platform != "linux":
    pytest.skip("looks for what is left in /proc", allow_module_level=True)
nbclient = pytest.importorskip("nbclient", reason="there is no nbclient")
nbformat = pytest.importorskip("nbformat", reason="there is no nbformat")
pytest.importorskip("ipykernel", reason="there is no ipykernel")

BEGIN = """
import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from beam_spark_executor import BeamSparkRunner

class Word:
    def __init__(self, text):
        self.text = text

endpoints = []
"""
EDITED = """
def change(word):
    return word.text{how}
"""
RUN = """
pipeline = beam.Pipeline(BeamSparkRunner(), PipelineOptions(["--spark_master_url=local[1]"]))
_ = (pipeline | beam.Create([Word("one"), Word("two")]) | beam.Map(lambda word: change(word)) | beam.Reshuffle()
     | beam.io.WriteToText("out", num_shards=1, shard_name_template=""))
result = pipeline.run()
print(result.wait_until_finish())
endpoints.append(result.endpoint)
print(sorted(open("out").read().split()))
"""
END = "print(len(set(endpoints)))"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_notebook_run_uses_a_function_edited_after_the_previous_run(
    program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in program.environment.items():
        monkeypatch.setitem(os.environ, name, value)
    cells = (
        BEGIN,
        EDITED.format(how=".upper()"),
        RUN,
        EDITED.format(how=" * 2"),
        RUN,
        END,
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    resources = {"metadata": {"path": str(program.folder)}}
    nbclient.NotebookClient(
        notebook, timeout=400, kernel_name="python3", resources=resources
    ).execute()
    first, second, servers = (_said(notebook.cells[place]) for place in (2, 4, 5))
    assert first.splitlines() == ["DONE", "['ONE', 'TWO']"]
    assert second.splitlines() == ["DONE", "['oneone', 'twotwo']"]
    assert servers == "1\n"  # the server stays for the next cell


def _said(cell: Any) -> str:
    return "".join(one.text for one in cell.outputs if one.get("name") == "stdout")
