"""Cluster of machines that share only Spark and a store, and a server beside it. Needs root, and
versitygw on the path, or Maven.
"""

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
from hdfs_machine import hdfs_machine
from job_server import ServerEnded, without_store_mark
from jobs import Pipelines, pickle_by_value
from lives import Lives, lives
from machines import Layout, Network, network, reason_not_to
from round_fixtures import boot
from s3_machine import MotoMachine, s3_machine
from seeds import add_seed_options, run_for_each_seed
from shared_folder import SharedFolder
from spark_machines import spark_home, spark_machines
from waiting import wait_until

WORKERS = 2

__all__ = ["boot"]
pytest_generate_tests = run_for_each_seed


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds options for the amount of data, the number of rounds, and the seed."""
    kinds = ("s3", "moto", "hdfs", "folder")
    parser.addoption("--store", choices=kinds, default="s3", help="what machines share")
    parser.addoption("--gigabytes", type=float, default=0.02, help="how much is grouped by key")
    add_seed_options(parser, rounds="how often machines are killed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sorts tests: first tests that use all cores of the cluster, last tests that break components."""
    items.sort(key=lambda it: ("running" in it.fixturenames, "seed" in it.fixturenames))


@pytest.fixture(scope="session")
def kind(request: pytest.FixtureRequest) -> str:
    """Returns the kind of the store."""
    chosen: str = request.config.getoption("--store")
    return chosen


@pytest.fixture(scope="session")
def of_s3(kind: str) -> None:
    """Skips a test that needs S3 if the store is of another kind."""
    if kind != "s3":
        pytest.skip("it is about S3")


@pytest.fixture(scope="session")
def layout(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layout]:
    """Returns the file layout of the machines; skips the tests if machines can't be created."""
    reason = reason_not_to()
    if not reason and kind == "hdfs":
        reason = java_servers.reason_not_to_run()
    elif not reason and kind == "s3" and shutil.which("versitygw") is None:
        reason = "there is no versitygw, a server of S3's protocol"
    if reason:
        pytest.skip(f"NOT RUN: {reason}")
    shared = [tmp_path_factory.mktemp("shared")] if kind == "folder" else []
    # Use a short path for the sockets below it.
    with tempfile.TemporaryDirectory(prefix="m") as name:
        yield Layout(Path(name), {"spark": spark_home()}, shared=shared)


@pytest.fixture(scope="session")
def lines(layout: Layout) -> Iterator[Network]:
    """Yields the network of all machines."""
    disks = layout.private / "disks"
    disks.mkdir()
    with network(disks) as made:
        yield made


@pytest.fixture(scope="session")
def store(
    lines: Network, layout: Layout, kind: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    """Yields the store of all machines."""
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
    """Yields the cluster that most tests share."""
    with spark_machines(lines, layout, store.environment, WORKERS) as spark:
        yield Site(lines, layout, store, spark)


@pytest.fixture(scope="session")
def running(site: Site) -> Iterator[Lives]:
    """Yields the shared server, which can resume after a kill. At the end it must exit and leave no
    process and no file.

    The state of the server is in the store, so the next server finds no state on its disk. The
    server holds all cores of the cluster.
    """
    temporary = site.layout.private / "server"
    temporary.mkdir()
    places = (temporary, site.store.place("state"))
    try:
        with lives(*places, *site.flags(PREFIX), environment=site.environment) as made:
            yield made
            print(f"KILLED {dict(made.kills)}", flush=True)
            wait_until(
                lambda: not without_store_mark(site.store.names(f"{PREFIX}/")),
                60,
                "data of jobs goes",
            )
            made.server.stop()
    except ServerEnded:
        print(site.spark.last_words())
        raise


@pytest.fixture(autouse=True, scope="session")
def _send_jobs_along() -> None:
    for module in (beam_jobs, cost_work, victims):
        pickle_by_value(module.__name__)


@pytest.fixture(autouse=True, scope="module")
def _send_along(request: pytest.FixtureRequest) -> None:
    pickle_by_value(request.module.__name__)


@pytest.fixture(params=["embedded", "PROCESS"])
def pipelines(request: pytest.FixtureRequest, running: Lives, boot: Path) -> Pipelines:
    """Returns pipelines whose user code runs on the cluster."""
    process = ["--environment_type=PROCESS", f"--environment_options=process_command={boot}"]
    return Pipelines(running.address, request.param, process if request.param == "PROCESS" else [])


@pytest.fixture
def embedded(running: Lives) -> Pipelines:
    """Returns pipelines without an environment option."""
    return Pipelines(running.address, "embedded", [])
