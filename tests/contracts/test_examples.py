"""Tests that every Python example of a README or a documentation page behaves as documented.

Examples that need a host get a host in these tests; a new example runs unchanged. Tests of the
packages check some examples in more detail.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow
import pytest
from apache_beam.coders.coders import FastPrimitivesCoder, LengthPrefixCoder
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to
from beam_runner_engine.scheduler import (
    capture,
    commands,
    events,
    kept_state,
    scheduler,
    specs,
    transfer,
)
from beam_runner_engine.scheduler.commands import OpenBundles
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.specs import StageSpec
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.server import JobServer
from beam_runner_model.facts import DataStatistics
from beam_runner_model.jobs import JobState
from beam_runner_model.windows import GLOBAL_WINDOW
from beam_runner_worker.fnapi.server import FnApiServer
from documents import Category, categorize_block, list_pages, read_blocks, read_table
from pyarrow import parquet

TABLE = read_table()
EXAMPLES = {
    page: examples
    for page in list_pages()
    if (
        examples := [
            block.text
            for block in read_blocks(page)
            if categorize_block(block, TABLE) is Category.EXAMPLE
        ]
    )
}


def run(page: str, names: dict[str, Any] | None = None) -> dict[str, Any]:
    """Runs a page's examples in order, and returns their global names."""
    known = {} if names is None else names
    for block in EXAMPLES[page]:
        exec(compile(block, page, "exec"), known)
    return known


@pytest.mark.parametrize("page", sorted(set(EXAMPLES) - set(TABLE.hosts)))
def test_documentation_examples_run_unchanged(page: str) -> None:
    names = run(page)
    told = re.findall(r"^([\w.]+)  # (\".*\"|\d+)$", "\n".join(EXAMPLES[page]), re.M)
    assert [(name, eval(name, names)) for name, _ in told] == [
        (name, eval(value)) for name, value in told
    ]


def test_example_program_of_the_embedded_readme_runs_a_fused_stage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (example,) = EXAMPLES["packages/embedded/README.md"]
    assert example.count("\n") <= 60
    exec(compile(example, "README.md", "exec"), {})
    assert capsys.readouterr().out.split() == ["2", "2", "2", "3", "2", "3"]


def test_fn_api_example_names_only_existing_attributes() -> None:
    """The example needs an SDK; the tests of the package run such stages."""
    (example,) = EXAMPLES["packages/worker/README.md"]
    code = compile(example, "README.md", "exec")
    homes = {
        "FnApiServer": "server",
        "HarnessLimits": "harness",
        "stop_external_worker": "external",
    }
    for name, module in homes.items():
        assert name in code.co_names
        assert hasattr(importlib.import_module(f"beam_runner_worker.fnapi.{module}"), name)
    assert {"get_harness", "close"} <= set(vars(FnApiServer)) & set(code.co_names)


def test_scheduler_example_dispatches_and_accepts_results() -> None:
    data = Data("ref", DataStatistics(1, 8, 0, None, frozenset([GLOBAL_WINDOW])))
    names = {"now": 0, "data": data}
    for module in (capture, commands, events, kept_state, scheduler, specs, transfer):
        names |= vars(module)
    names["stages"] = (StageSpec("read", ("impulse",)),)
    start, continuation = EXAMPLES["docs/engine/scheduler.md"]
    exec(start, names)
    opened = [command for command in names["commands"] if isinstance(command, OpenBundles)]
    assert [bundle.stage for one in opened for bundle in one.bundles] == ["read"]
    names |= {
        "other_graph": specs.GraphSpec((names["stages"][0],), roots=("impulse",)),
        "stage_ids": {"read": "first"},
        "collection_ids": {"impulse": "start"},
        "side_input_ids": {},
        "roots": (events.Output("impulse", data),),
    }
    exec(continuation, names)
    assert [bundle.stage for bundle in names["scheduler"].open_bundles] == ["read"]


def test_job_services_example_serves_observes_and_drains_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, _ = EXAMPLES["packages/jobservices/README.md"]
    monkeypatch.chdir(tmp_path)
    states: list[JobState] = []

    def follow(server: JobServer) -> None:
        with JobClient(server.address) as client:
            pipeline = beam.Pipeline()
            _ = pipeline | beam.Impulse()
            job_id = client.submit_job(pipeline.to_runner_api().SerializeToString())
            names: dict[str, Any] = {"job_id": job_id}
            pages = ("docs/how-to/monitoring.md", "docs/how-to/failures-and-stops.md")
            for block in (block for page in pages for block in EXAMPLES[page]):
                if "JobClient" not in block:
                    continue
                exec(block.replace("localhost:8099", server.address), names)
            client.cancel_job(job_id)
            states.append(client.wait_until_finish(job_id))

    own_port = served.replace("port=8099", "port=0")
    waits = "threading.Event().wait()"
    assert own_port.count(waits) == 1
    exec(own_port.replace(waits, "follow(server)"), {"follow": follow})
    assert states == [JobState.CANCELLED]


def test_quarantine_example_decodes_the_elements(tmp_path: Path) -> None:
    (example,) = [one for one in EXAMPLES["docs/how-to/quarantine.md"] if "CODER" in one]
    encoded = LengthPrefixCoder(FastPrimitivesCoder()).get_impl().encode_nested("a")
    parquet.write_table(pyarrow.table({"element": [encoded]}), tmp_path / "part.parquet")
    location = "s3://bucket/quarantine/JOB_ID"
    assert location in example
    names: dict[str, Any] = {}
    exec(example.replace(location, str(tmp_path)), names)
    assert names["CODER"].get_impl().decode_nested(encoded) == "a"


def test_batches_of_the_page_about_rows_have_the_sums_of_rows(tmp_path: Path) -> None:
    names = run("docs/how-to/rows-and-batches.md")
    columns = {"store": ["a", "b", "a", "a"], "quantity": [3, 4, 2, 5], "price": [1.5, 2.0, 9.0, 2]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "sales.parquet", row_group_size=2)
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        revenues = names["read_revenues"](pipeline, str(tmp_path / "*.parquet"))
        assert_that(revenues, equal_to([("a", 14.5), ("b", 8.0)]))
