"""A server of the current versions, and clients of other versions: virtual environments and Go programs."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from installed import Clients
from job_server import JobServerProcess, job_server


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option for the folder of the clients."""
    parser.addoption("--clients", type=Path, help="folder that keeps what is installed for clients")


@pytest.fixture(scope="session")
def server() -> Iterator[JobServerProcess]:
    """Yields a server with default options that reaches no docker daemon; it must leave no process and no file."""
    with tempfile.TemporaryDirectory(prefix="t") as folder:
        docker = Path(folder, "bin", "docker")
        docker.parent.mkdir()
        docker.symlink_to(shutil.which("false") or "/bin/false")
        path = f"{docker.parent}:{os.environ['PATH']}"
        temporary = Path(folder, "t")
        temporary.mkdir()
        with job_server(temporary, environment={"PATH": path}) as running:
            yield running


@pytest.fixture(scope="session")
def clients(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Clients:
    """Installs and builds the clients once."""
    folder = request.config.getoption("--clients")
    return Clients(folder or tmp_path_factory.mktemp("clients"))
