"""A cluster of machines that share nothing but Spark and a store, and a server beside it. Needs root, and versitygw on the path, or Maven."""

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

import beam_jobs
import cost_work
import java_servers
import victims
from cluster_site import PREFIX, Site, Store
from harness_commands import boot_command
from hdfs_machine import hdfs_machine
from job_server import ServerEnded
from jobs import Pipelines, pickle_by_value
from lives import Lives, lives
from machines import Layout, Network, network, reason_not_to
from s3_machine import MotoMachine, s3_machine
from seeds import add_seed_options, run_for_each_seed
from shared_folder import SharedFolder
from spark_machines import spark_home, spark_machines
from waiting import wait_until

WORKERS = 2


def pytest_addoption(parser: pytest.Parser) -> None:
    """How much, how often, and which."""
    kinds = ("s3", "moto", "hdfs", "folder")
    parser.addoption("--store", choices=kinds, default="s3", help="what machines share")
    parser.addoption("--gigabytes", type=float, default=0.02, help="how much is grouped by key")
    add_seed_options(parser, rounds="how often machines are killed")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A round for each seed."""
    run_for_each_seed(metafunc)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """First those that have the cores of the cluster to themselves, and what breaks things last."""
    items.sort(key=lambda it: ("running" in it.fixturenames, "seed" in it.fixturenames))


@pytest.fixture(scope="session")
def kind(request: pytest.FixtureRequest) -> str:
    """What kind of store there is."""
    chosen: str = request.config.getoption("--store")
    return chosen


@pytest.fixture(scope="session")
def of_s3(kind: str) -> None:
    """For tests of what is S3's alone."""
    if kind != "s3":
        pytest.skip("it is about S3")


@pytest.fixture(scope="session")
def layout(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layout]:
    """What is where on machines, which are skipped where none can be made."""
    reason = reason_not_to()
    if not reason and kind == "hdfs":
        reason = java_servers.reason_not_to()
    elif not reason and kind == "s3" and shutil.which("versitygw") is None:
        reason = "there is no versitygw, a server of S3's protocol"
    if reason:
        pytest.skip(f"NOT RUN: {reason}")
    shared = [tmp_path_factory.mktemp("shared")] if kind == "folder" else []
    # Short, for the sockets that are made below it.
    with tempfile.TemporaryDirectory(prefix="m") as name:
        yield Layout(Path(name), {"spark": spark_home()}, shared=shared)


@pytest.fixture(scope="session")
def lines(layout: Layout) -> Iterator[Network]:
    """The network of all machines."""
    disks = layout.private / "disks"
    disks.mkdir()
    with network(disks) as made:
        yield made


@pytest.fixture(scope="session")
def store(
    lines: Network, layout: Layout, kind: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    """The store of all machines."""
    if kind == "folder":
        (folder,) = layout.shared
        yield SharedFolder(folder)
        return
    if kind == "hdfs":
        making = hdfs_machine(lines, layout, tmp_path_factory.mktemp("hdfs"))
    elif kind == "moto":
        making = s3_machine(lines, layout, kind=MotoMachine)
    else:
        making = s3_machine(lines, layout)
    with making as made:
        yield made


@pytest.fixture(scope="session")
def site(lines: Network, layout: Layout, store: Store) -> Iterator[Site]:
    """The cluster that most tests share."""
    with spark_machines(lines, layout, store.environment, WORKERS) as spark:
        yield Site(lines, layout, store, spark)


@pytest.fixture(scope="session")
def running(site: Site) -> Iterator[Lives]:
    """The server that most tests share, which can go on where it was killed; after them it must end and leave nothing.

    What it keeps is in the store: the next one finds nothing of it on its disk. It has all cores of the cluster: nobody else gets any meanwhile.
    """
    temporary = site.layout.private / "server"
    temporary.mkdir()
    places = (temporary, site.store.place("state"))
    try:
        with lives(*places, *site.flags(PREFIX), environment=site.environment) as made:
            yield made
            print(f"KILLED {dict(made.kills)}", flush=True)
            wait_until(lambda: not site.store.names(f"{PREFIX}/"), 60, "data of jobs goes")
            made.server.stop()
    except ServerEnded:
        print(site.spark.last_words())
        raise


@pytest.fixture(scope="session")
def boot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A command for PROCESS environments, which every machine has."""
    return boot_command(tmp_path_factory.mktemp("boot"))


@pytest.fixture(autouse=True, scope="session")
def _send_jobs_along() -> None:
    for module in (beam_jobs, cost_work, victims):
        pickle_by_value(module.__name__)


@pytest.fixture(autouse=True, scope="module")
def _send_along(request: pytest.FixtureRequest) -> None:
    pickle_by_value(request.module.__name__)


@pytest.fixture(params=["embedded", "PROCESS"])
def pipelines(request: pytest.FixtureRequest, running: Lives, boot: Path) -> Pipelines:
    """Pipelines whose user code runs on the cluster."""
    process = ["--environment_type=PROCESS", f"--environment_options=process_command={boot}"]
    return Pipelines(running.address, request.param, process if request.param == "PROCESS" else [])


@pytest.fixture
def embedded(running: Lives) -> Pipelines:
    """Pipelines of users who name no environment."""
    return Pipelines(running.address, "embedded", [])
