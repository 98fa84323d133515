"""One server for Beam's suites."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from job_server import FAILING_SOON, JobServerProcess, job_server
from marks import declare_marks_of_beam


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds what the server of the tests is started with."""
    parser.addoption(
        "--bulk", default="auto", help="whether stages of bounded data are run as Spark's own jobs"
    )
    parser.addoption(
        "--without-spark",
        action="store_true",
        help="run bundles in plain processes of this machine",
    )


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[JobServerProcess]:
    """The server with its defaults, unless the command line says other; after the last test it must end and leave nothing."""
    flags = ["--bulk", request.config.getoption("--bulk")]
    if request.config.getoption("--without-spark"):
        flags.append("--without-spark")
    with (
        tempfile.TemporaryDirectory(prefix="t") as folder,
        job_server(Path(folder), FAILING_SOON, *flags) as running,
    ):
        yield running


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marks that Beam's test modules use."""
    declare_marks_of_beam(config)
