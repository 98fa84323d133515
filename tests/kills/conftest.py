"""Killed servers: their folders, their pipelines, and the number of rounds."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import steady
import victims
from crash_points import Points
from harness_commands import boot_command, environment_flags
from jobs import Pipelines, pickle_by_value
from lives import Lives
from seeds import add_seed_options, run_for_each_seed


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds options for the number of random kills and the seed."""
    add_seed_options(parser, rounds="how often each pipeline is run")
    parser.addoption("--minutes", type=int, default=60, help="how long the soak takes")
    parser.addoption("--every", type=int, default=30, help="seconds from kill to kill in it")
    parser.addoption("--jobs", type=int, default=1000, help="how many are run one after the other")
    parser.addoption("--rate", type=int, default=100, help="of the soak, in numbers a second")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Generates a round for each seed."""
    run_for_each_seed(metafunc)


@pytest.fixture(autouse=True, scope="session")
def _send_along() -> None:
    for module in (victims, steady):
        pickle_by_value(module.__name__)


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Yields a folder for temporary files with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="t", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def boot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a command for PROCESS environments."""
    return boot_command(tmp_path_factory.mktemp("boot"))


@pytest.fixture
def pipelines_of(boot: Path) -> Callable[[Lives, str], Pipelines]:
    """Returns a function that makes pipelines for a server, in an ``embedded``, ``LOOPBACK`` or
    ``PROCESS`` environment.
    """
    flags = environment_flags(boot)
    return lambda lives, environment: Pipelines(lives.address, environment, flags[environment])


@pytest.fixture
def points(tmp_path: Path) -> Points:
    """Returns the folder in which processes look for orders at crash points."""
    folder = tmp_path / "points"
    folder.mkdir()
    return Points(folder)
