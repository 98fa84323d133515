"""Real Kafka broker for all tests of this folder."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).parents[1] / "kills"))

from java_servers import fetch_class_path
from kafka_broker import POM, KafkaBroker
from seeds import add_seed_options, run_for_each_seed


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds options for the number of rounds of kills and the seed."""
    add_seed_options(parser, rounds="how often the stream is run")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Generates a round for each seed."""
    run_for_each_seed(metafunc)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Yields the broker."""
    folder = tmp_path_factory.mktemp("kafka")
    made = KafkaBroker(folder, fetch_class_path(POM, folder))
    try:
        yield made
    finally:
        made.kill()


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Yields a folder for temporary files with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="t", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
