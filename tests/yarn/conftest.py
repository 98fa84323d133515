"""Real YARN servers, and the archive of this environment, for all tests of this folder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from java_servers import fetch_class_path
from yarn_servers import POM, YarnServers


@pytest.fixture(scope="session")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[YarnServers]:
    """Yields the resource manager and the node manager."""
    folder = tmp_path_factory.mktemp("yarn")
    servers = YarnServers(folder, fetch_class_path(POM, folder))
    try:
        yield servers
    finally:
        servers.close()


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the archive of this Python and its packages."""
    file = tmp_path_factory.mktemp("archive") / "environment.tar.gz"
    pack = ("-m", "beam_spark_executor.cli", "pack", "-o", str(file))
    subprocess.run([sys.executable, *pack], check=True, timeout=900)
    return file
