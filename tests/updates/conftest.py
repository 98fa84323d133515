"""Updated streams: their server, their pipelines, and the number of rounds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "kills"))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import edited
import sunk_streams
from crash_points import points
from jobs import pickle_by_value
from round_fixtures import temporary
from seeds import add_seed_options, run_for_each_seed

__all__ = ["points", "temporary"]
pytest_generate_tests = run_for_each_seed


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds options for the number of rounds and the seed."""
    add_seed_options(parser, rounds="how often a stream is updated with kills at all points")


@pytest.fixture(autouse=True, scope="session")
def _send_along() -> None:
    for module in (edited, sunk_streams):
        pickle_by_value(module.__name__)
