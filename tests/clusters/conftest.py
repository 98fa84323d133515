"""A cluster of machines that share nothing but Spark and a store, and a server beside it. Needs root, and versitygw on the path."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "kills"))
sys.path.insert(0, str(Path(__file__).parent))

import victims
from cluster_site import Site
from harness_commands import boot_command
from job_server import JobServerProcess, ServerEnded, job_server
from jobs import Pipelines, pickle_by_value
from machines import Layout, network, reason_not_to
from s3_machine import s3_machine
from spark_machines import spark_home, spark_machines

WORKERS = 2


def pytest_addoption(parser: pytest.Parser) -> None:
    """How much."""
    parser.addoption("--gigabytes", type=float, default=0.02, help="how much is grouped by key")


@pytest.fixture(scope="session")
def site() -> Iterator[Site]:
    """The cluster that all tests share."""
    reason = reason_not_to()
    if not reason and shutil.which("versitygw") is None:
        reason = "there is no versitygw, a server of S3's protocol"
    if reason:
        pytest.skip(f"NOT RUN: {reason}")
    # Short, for the sockets that are made below it.
    with tempfile.TemporaryDirectory(prefix="m") as name:
        folder = Path(name)
        (folder / "disks").mkdir()
        layout = Layout(folder, {"spark": spark_home()})
        with (
            network(folder / "disks") as lines,
            s3_machine(lines, layout) as store,
            spark_machines(lines, layout, store.environment, WORKERS) as spark,
        ):
            yield Site(lines, layout, store, spark)


@pytest.fixture(scope="session")
def server(site: Site) -> Iterator[JobServerProcess]:
    """The server that most tests share; after the last test it must end and leave nothing."""
    folder = site.layout.private / "server"
    folder.mkdir()
    try:
        with job_server(folder, *site.flags(), environment=site.environment) as running:
            yield running
    except ServerEnded:
        print(site.spark.last_words())
        raise
    assert site.store.names("jobs/") == []


@pytest.fixture(scope="session")
def boot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A command for PROCESS environments, which every machine has."""
    return boot_command(tmp_path_factory.mktemp("boot"))


@pytest.fixture(autouse=True, scope="session")
def _send_victims_along() -> None:
    pickle_by_value(victims.__name__)


@pytest.fixture(autouse=True, scope="module")
def _send_along(request: pytest.FixtureRequest) -> None:
    pickle_by_value(request.module.__name__)


@pytest.fixture(params=["embedded", "PROCESS"])
def pipelines(request: pytest.FixtureRequest, server: JobServerProcess, boot: Path) -> Pipelines:
    """Pipelines whose user code runs on the cluster."""
    process = ["--environment_type=PROCESS", f"--environment_options=process_command={boot}"]
    return Pipelines(server.address, request.param, process if request.param == "PROCESS" else [])


@pytest.fixture
def embedded(server: JobServerProcess) -> Pipelines:
    """Pipelines of users who name no environment."""
    return Pipelines(server.address, "embedded", [])
