"""A server of whatever versions are installed."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from job_server import JobServerProcess, job_server


@pytest.fixture(scope="session")
def server() -> Iterator[JobServerProcess]:
    """The server with its defaults; after the last test it must end and leave nothing."""
    with tempfile.TemporaryDirectory(prefix="t") as folder, job_server(Path(folder)) as running:
        yield running
