"""The program of Go pipelines, the server that runs them, and Python's expansion service."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from job_server import FAILING_SOON, JobServerProcess, job_server
from services import run_service

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the pipelines with the published Go SDK, which takes minutes without a build cache."""
    built = tmp_path_factory.mktemp("go") / "pipelines"
    subprocess.run(["go", "build", "-o", str(built), "."], cwd=HERE, check=True, timeout=900)
    return built


@pytest.fixture(scope="session")
def server() -> Iterator[JobServerProcess]:
    """Yields a server with default options; after the last test it must exit and leave no process and no file."""
    with (
        tempfile.TemporaryDirectory(prefix="t") as folder,
        job_server(Path(folder), FAILING_SOON) as running,
    ):
        yield running


@pytest.fixture(scope="session")
def expansion() -> Iterator[str]:
    """Yields the address of Python's expansion service."""
    service = (sys.executable, "-m", "apache_beam.runners.portability.expansion_service_main")
    with run_service((*service, "--fully_qualified_name_glob", "*"), "--port=") as address:
        yield address
