"""Killed servers: their folders, their pipelines, and the number of rounds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import steady
import victims
from crash_points import points
from harness_commands import environment_flags
from jobs import Pipelines, pickle_by_value
from lives import Lives
from round_fixtures import boot, temporary
from seeds import add_seed_options, run_for_each_seed

__all__ = ["boot", "points", "temporary"]
pytest_generate_tests = run_for_each_seed


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds options for the number of random kills and the seed."""
    add_seed_options(parser, rounds="how often each pipeline is run")
    parser.addoption("--minutes", type=int, default=60, help="how long the soak takes")
    parser.addoption("--every", type=int, default=30, help="seconds from kill to kill in it")
    parser.addoption("--jobs", type=int, default=1000, help="how many are run one after the other")
    parser.addoption("--rate", type=int, default=100, help="of the soak, in numbers a second")


@pytest.fixture(autouse=True, scope="session")
def _send_along() -> None:
    for module in (victims, steady):
        pickle_by_value(module.__name__)


@pytest.fixture
def pipelines_of(boot: Path) -> Callable[[Lives, str], Pipelines]:
    """Returns a function that makes pipelines for a server, in an ``embedded``, ``LOOPBACK`` or
    ``PROCESS`` environment.
    """
    flags = environment_flags(boot)
    return lambda lives, environment: Pipelines(lives.address, environment, flags[environment])
