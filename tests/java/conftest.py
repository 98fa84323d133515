"""Classes of Java pipelines, and the server that runs them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from job_server import FAILING_SOON, JobServerProcess, job_server
from round_fixtures import broker

HERE = Path(__file__).parent
__all__ = ["broker"]


@pytest.fixture(scope="session")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Builds the class path of the pipelines and the published Java SDK, which takes minutes without a Maven cache."""
    built = tmp_path_factory.mktemp("java")
    listed = built / "classpath"
    goals = ("compile", "dependency:build-classpath")
    flags = (f"-Dbuild.folder={built}", f"-Dmdep.outputFile={listed}")
    subprocess.run(["mvn", "-q", "-B", *goals, *flags], cwd=HERE, check=True, timeout=1800)
    return f"{built / 'classes'}:{listed.read_text(encoding='utf-8').strip()}"


@pytest.fixture(scope="session")
def server() -> Iterator[JobServerProcess]:
    """Yields a server on plain processes; after the last test it must exit and leave no process and no file."""
    with (
        tempfile.TemporaryDirectory(prefix="t") as folder,
        job_server(Path(folder), "--without-spark", FAILING_SOON) as running,
    ):
        yield running
