"""Fixtures of tests that kill processes in rounds. A ``conftest.py`` imports the ones that its tests use."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness_commands import boot_command
from java_servers import fetch_class_path
from kafka_broker import POM, KafkaBroker


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Yields a folder for temporary files with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="t", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def boot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a command for PROCESS environments, which also exists on every machine of a cluster."""
    return boot_command(tmp_path_factory.mktemp("boot"))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Yields a Kafka broker; skips the test if Maven can't fetch it."""
    folder = tmp_path_factory.mktemp("kafka")
    made = KafkaBroker(folder, fetch_class_path(POM, folder))
    try:
        yield made
    finally:
        made.kill()
