"""Import path, server and number of random streams for the tests of quarantined (failing) elements."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from job_server import JobServerProcess, job_server
from jobs import Pipelines
from seeds import add_seed_options, run_for_each_seed

pytest_generate_tests = run_for_each_seed


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds options for the number of streams and the first seed."""
    add_seed_options(parser, rounds="number of random streams in each environment")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobServerProcess]:
    """Yields a server on plain processes with default flags."""
    with job_server(tmp_path_factory.mktemp("server"), "--without-spark") as running:
        yield running


@pytest.fixture(params=["embedded", "LOOPBACK"])
def streams(request: pytest.FixtureRequest, server: JobServerProcess) -> Pipelines:
    """Returns the pipelines of an environment."""
    flags = [] if request.param == "embedded" else [f"--environment_type={request.param}"]
    return Pipelines(server.address, request.param, flags)
