"""Server of the installed versions."""

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
    """Yields a server with default options; after the last test it must exit and leave no process and no file."""
    with tempfile.TemporaryDirectory(prefix="t") as folder, job_server(Path(folder)) as running:
        yield running
