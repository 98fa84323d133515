"""Real HDFS servers for all tests of this folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "kills"))
sys.path.insert(0, str(Path(__file__).parent))

from hdfs_servers import POM, HdfsServers
from java_servers import fetch_class_path


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServers]:
    """Yields the namenode and the data node."""
    folder = tmp_path_factory.mktemp("hdfs")
    servers = HdfsServers(folder, fetch_class_path(POM, folder))
    try:
        yield servers
    finally:
        servers.close()


@pytest.fixture(autouse=True)
def _settings(hdfs: HdfsServers, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in hdfs.environment.items():
        monkeypatch.setenv(name, value)
