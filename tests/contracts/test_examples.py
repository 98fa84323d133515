"""Every Python example of a README or a documentation page behaves as the page says.

Examples that need a host get a host in these tests; a new example runs unchanged. Tests of the
packages check some examples in more detail.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from beam_runner_engine.scheduler import commands, events, scheduler, specs
from beam_runner_engine.scheduler.commands import OpenBundles
from beam_runner_engine.scheduler.data import Data
from beam_runner_engine.scheduler.specs import StageSpec
from beam_runner_jobservices.client import JobClient
from beam_runner_jobservices.server import JobServer
from beam_runner_model.facts import DataFacts
from beam_runner_model.jobs import JobState
from beam_runner_model.windows import GLOBAL_WINDOW
from beam_runner_worker.fnapi.server import FnApiServer

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("packages/*/README.md"), *ROOT.glob("docs/**/*.md")])
EXAMPLES = {
    str(page.relative_to(ROOT)): blocks
    for page in PAGES
    if (blocks := re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S))
}
WITH_A_HOST = {
    "docs/engine/scheduler.md",
    "docs/how-to/failures-and-stops.md",
    "docs/how-to/monitoring.md",
    "docs/how-to/spark-streams.md",
    "docs/how-to/spark-tables.md",
    "docs/how-to/submit-jobs.md",
    "packages/jobservices/README.md",
    "packages/worker/README.md",
}
"""Pages with a separate test; the executor's tests run the examples for submission, which need pandas."""


def run(page: str, names: dict[str, Any] | None = None) -> dict[str, Any]:
    """Runs a page's examples in order, and returns their global names."""
    known = {} if names is None else names
    for block in EXAMPLES[page]:
        exec(compile(block, page, "exec"), known)
    return known


def test_documentation_pages_with_a_host_have_examples() -> None:
    assert set(EXAMPLES) >= WITH_A_HOST


@pytest.mark.parametrize("page", sorted(set(EXAMPLES) - WITH_A_HOST))
def test_documentation_examples_run_unchanged(page: str) -> None:
    names = run(page)
    told = re.findall(r"^([\w.]+)  # (\".*\"|\d+)$", "\n".join(EXAMPLES[page]), re.M)
    assert [(name, eval(name, names)) for name, _ in told] == [
        (name, eval(value)) for name, value in told
    ]


def test_small_host_runs_a_fused_stage(capsys: pytest.CaptureFixture[str]) -> None:
    (example, _) = EXAMPLES["packages/worker/README.md"]
    assert example.count("\n") <= 60
    exec(compile(example, "README.md", "exec"), {})
    assert capsys.readouterr().out.split() == ["2", "2", "2", "3", "2", "3"]


def test_fn_api_example_names_only_existing_attributes() -> None:
    """The example needs an SDK; the tests of the package run such stages."""
    (_, example) = EXAMPLES["packages/worker/README.md"]
    code = compile(example, "README.md", "exec")
    homes = {
        "FnApiServer": "server",
        "HarnessLimits": "harness",
        "stop_external_worker": "external",
    }
    for name, module in homes.items():
        assert name in code.co_names
        assert hasattr(importlib.import_module(f"beam_runner_worker.fnapi.{module}"), name)
    assert {"harness", "close"} <= set(vars(FnApiServer)) & set(code.co_names)


def test_scheduler_example_dispatches_and_accepts_results() -> None:
    data = Data("ref", DataFacts(1, 8, 0, None, frozenset([GLOBAL_WINDOW])))
    names = {"now": 0, "data": data}
    for module in (commands, events, scheduler, specs):
        names |= vars(module)
    names["stages"] = (StageSpec("read", ("impulse",)),)
    (opened,) = [
        command
        for command in run("docs/engine/scheduler.md", names)["commands"]
        if isinstance(command, OpenBundles)
    ]
    assert [bundle.stage for bundle in opened.bundles] == ["read"]


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
            job_id = client.submit(pipeline.to_runner_api().SerializeToString())
            names: dict[str, Any] = {"job_id": job_id}
            pages = ("docs/how-to/monitoring.md", "docs/how-to/failures-and-stops.md")
            for block in (block for page in pages for block in EXAMPLES[page]):
                exec(block.replace("localhost:8099", server.address), names)
            client.cancel(job_id)
            states.append(client.wait_until_finish(job_id))

    own_port = served.replace("port=8099", "port=0")
    waits = "threading.Event().wait()"
    assert own_port.count(waits) == 1
    exec(own_port.replace(waits, "follow(server)"), {"follow": follow})
    assert states == [JobState.CANCELLED]
