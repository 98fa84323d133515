"""The server on a cluster of two executors, each a Java process of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from job_server import JobServerProcess, job_server

MASTER = "local-cluster[2,1,1024]"


@pytest.fixture(scope="session")
def server() -> Iterator[JobServerProcess]:
    """A server whose executors may be killed."""
    with (
        tempfile.TemporaryDirectory(prefix="t") as folder,
        job_server(Path(folder), "--spark-master-url", MASTER) as running,
    ):
        yield running
